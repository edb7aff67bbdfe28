// Package worker runs cases in subprocesses: the protocol, the engine's side
// (supervisor and pool) and the worker's side (Serve).
//
// A worker is a process with two inherited descriptors: it reads newline-
// delimited JSON from fd 3 and writes it to fd 4 (named by AICPLAN_FD_IN and
// AICPLAN_FD_OUT). Its stdout and stderr go to a log file, because frameworks print
// there. The first message of a worker is hello. The engine keeps up to hello.window
// cases outstanding. The worker may choose the order of its cases. It sends start when it
// begins a case, and ends each with exactly one result or error. If the process dies or a
// deadline passes, the case that was started last and has not ended fails; the others are
// given to another worker and lose no attempt. A worker past a deadline gets SIGQUIT, to
// print its stacks into the log, and is killed one second later with all processes that it
// started.
//
// Op code is trusted. It runs in the worker's process, so it can send any result for the case
// in work, as it can return any number. The engine replaces a worker that sends a line that is
// no message, or an end of a case that it has not started or that has ended. A descriptor is
// closed in the children that Python forks and in programs that the op starts.
package worker

import (
	"encoding/json"
)

// ProtocolVersion must be increased if the meaning of messages changes. A worker whose hello
// has another version is not used.
const ProtocolVersion = 1

// Message types.
const (
	TypeInit     = "init"     // engine -> worker, once, first
	TypeHello    = "hello"    // worker -> engine, once, reply to init
	TypeCase     = "case"     // engine -> worker
	TypeStart    = "start"    // worker -> engine: work on seq begins
	TypeRows     = "rows"     // worker -> engine: rows of seq, before its end
	TypeResult   = "result"   // worker -> engine: seq is measured
	TypeError    = "error"    // worker -> engine: seq failed
	TypeLog      = "log"      // worker -> engine: one line for the event file
	TypeShutdown = "shutdown" // engine -> worker: end after the cases in flight
	// TypeConfigure replaces parts of init for the following cases. It is only sent to workers
	// with hello.configure that hold no case. There is no reply.
	TypeConfigure = "configure" // engine -> worker
	TypeBye       = "bye"       // worker -> engine: clean end; Restart has the reason
	// TypeAsk is a question to the engine, which may be sent before hello. The worker waits for
	// the answer. Cases may arrive before it.
	TypeAsk    = "ask"    // worker -> engine
	TypeAnswer = "answer" // engine -> worker
	// TypeCode reports the code of an op. A worker whose hello has reports_code sends it once an op is loaded
	// and, if more was imported since, before the next end of a case.
	TypeCode = "code" // worker -> engine
	// TypeMeasure is a message between a worker and the instrument of its device, in either
	// direction; see Spec.Instrument.
	TypeMeasure = "measure"
)

// Init is the first message to a worker: its device, settings and ops.
type Init struct {
	Type     string          `json:"type"`
	Protocol int             `json:"protocol"`
	Runtime  string          `json:"runtime"`           // name of the runtime block
	Kind     string          `json:"kind"`              // cpu, cuda, nccl, python
	Device   int             `json:"device"`            // index in PCI bus order; -1 for none
	UUID     string          `json:"uuid,omitempty"`    // expected device
	Slot     string          `json:"slot"`              // "w0"
	Measure  json.RawMessage `json:"measure,omitempty"` // the measure block's settings
	Options  map[string]any  `json:"options,omitempty"` // of the runtime block
	Ops      json.RawMessage `json:"ops,omitempty"`     // op bindings (python: module, getter, run)
	Seed     int64           `json:"seed"`
	// Spool is the worker's folder for the files of attachments, which it creates. If it is
	// empty, only small attachments are possible.
	Spool string `json:"spool,omitempty"`
	// Blocks is a JSON object with the collect's blocks that belong to the kind of the
	// runtime, by name.
	Blocks json.RawMessage `json:"blocks,omitempty"`
	// Reads are the files that the op reads.
	Reads []Read            `json:"reads,omitempty"`
	Env   map[string]string `json:"env,omitempty"`
}

// Hello is a worker's first message.
type Hello struct {
	Type       string `json:"type"`
	Protocol   int    `json:"protocol"`
	Pid        int    `json:"pid"`
	Framework  string `json:"framework,omitempty"` // label, used if the runtime block has none
	Version    string `json:"version"`             // of the framework's package
	Device     string `json:"device"`              // e.g. "NVIDIA H200", or the CPU's model name
	DeviceUUID string `json:"device_uuid,omitempty"`
	Window     int    `json:"window"` // cases it may hold; at least 1
	// Ahead limits the cases that the worker holds and has not started. 0 does not.
	Ahead int               `json:"ahead,omitempty"`
	Ops   []string          `json:"ops"`
	Env   map[string]string `json:"env,omitempty"`
	// Configure is true if the worker accepts configure messages. Otherwise other settings need
	// a new process.
	Configure bool `json:"configure,omitempty"`
	// ReportsCode is true if the worker sends the code of every op that it loads.
	ReportsCode bool `json:"reports_code,omitempty"`
	// Error is set if the worker cannot work at all, for example if its framework is missing.
	// The process then ends.
	Error *Failure `json:"error,omitempty"`
}

// Code is the code that an op is measured with, as far as it was imported.
type Code struct {
	Op string `json:"op"`
	// Files are the imported files that belong to no installed distribution, with the SHA-256 in hex of what
	// was imported.
	Files []CodeFile `json:"files"`
	// Packages maps installed distributions that the op imports, and those that they require, to versions.
	Packages map[string]string `json:"packages,omitempty"`
}

// CodeFile is a file of a Code.
type CodeFile struct {
	Module string `json:"module,omitempty"` // dotted name; empty for the file of the op
	Path   string `json:"path"`             // absolute
	SHA256 string `json:"sha256"`
}

// Configure replaces the measure settings, the op bindings and the seed of init, so that one
// worker serves several stages without restarting its framework.
type Configure struct {
	Type    string          `json:"type"`
	Measure json.RawMessage `json:"measure,omitempty"`
	Ops     json.RawMessage `json:"ops,omitempty"`
	Blocks  json.RawMessage `json:"blocks,omitempty"`
	Reads   []Read          `json:"reads,omitempty"`
	Seed    int64           `json:"seed"`
}

// apply replaces the settings of c.
func (i *Init) apply(c Configure) {
	i.Measure, i.Ops, i.Blocks, i.Reads, i.Seed = c.Measure, c.Ops, c.Blocks, c.Reads, c.Seed
}

// Read is a stage whose files an op reads.
type Read struct {
	Stage string   `json:"stage"` // its address
	Dir   string   `json:"dir"`   // the output folder, absolute
	Files []string `json:"files"` // files written by the stage, absolute
}

// Question is a worker's question about a version of its framework.
type Question struct {
	What    string `json:"what"` // "requires", "compat" or "route"
	Version string `json:"version"`
	// Specifier is a PEP 440 specifier, of requires and compat.
	Specifier string `json:"specifier,omitempty"`
	// Minima are the minimum versions of the alternatives, of route.
	Minima []string `json:"minima,omitempty"`
}

// Answer is the engine's answer to a Question.
type Answer struct {
	Type   string `json:"type"`
	Met    bool   `json:"met"`    // requires, compat: the version satisfies the specifier
	Index  int    `json:"index"`  // route: index of the highest minimum that is satisfied, or -1
	Oldest int    `json:"oldest"` // route: index of the lowest minimum
	Error  string `json:"error,omitempty"`
}

// Case is one case to measure.
type Case struct {
	Type   string          `json:"type"`
	Seq    int64           `json:"seq"`
	ID     string          `json:"id"`
	Op     string          `json:"op"`
	Params json.RawMessage `json:"params"`          // one JSON object, keys in grid order
	Sweep  json.RawMessage `json:"sweep,omitempty"` // array of objects: points inside the case
	// Example is the case of this kind for which a worker compiles first; nil if there is none.
	Example *Example `json:"example,omitempty"`
	// Attempt is the number of this attempt, from 1. Losing a worker that was not executing the
	// case does not count.
	Attempt int `json:"attempt,omitempty"`
}

// Example is a case that stands for others.
type Example struct {
	ID     string          `json:"id"`
	Params json.RawMessage `json:"params"`
	Sweep  json.RawMessage `json:"sweep,omitempty"`
}

// Start reports that the worker begins a case, which starts its deadline. A case with several
// visits is started at every visit.
type Start struct {
	Type string `json:"type"`
	Seq  int64  `json:"seq"`
	// Example is set if the worker runs the example of the case now. It starts the case again afterwards.
	Example bool `json:"example,omitempty"`
	// Again is set if the worker begins a case that it has begun before. The rows that it has sent are measured again.
	Again bool `json:"again,omitempty"`
}

// Row is one measured row: metric and key columns by name. Values are JSON
// scalars. Columns that are equal to the case's parameters need not be repeated. NaN and
// infinities, which JSON does not have, are the strings "NaN", "Infinity" and "-Infinity". A
// case with such a latency fails.
type Row map[string]any

// Attachment is a file that belongs to a case, such as a trace, a request log or a telemetry
// series. The engine stores it as an object with the case's rows.
type Attachment struct {
	Name      string `json:"name"`       // unique within the case, without slashes
	MediaType string `json:"media_type"` // such as application/jsonl
	// File is the name of a file in Init.Spool, which the engine removes.
	File string `json:"file,omitempty"`
	// Data is the content of a small attachment, at most MaxAttachmentData. It is ignored if
	// File is set.
	Data []byte `json:"data,omitempty"`
}

// MaxAttachmentData bounds Attachment.Data, in bytes. Larger attachments are files.
const MaxAttachmentData = 1 << 20

// CaseResult ends a case with its rows (more than one when it sweeps).
type CaseResult struct {
	Type    string  `json:"type"`
	Seq     int64   `json:"seq"`
	Rows    []Row   `json:"rows"`
	Seconds float64 `json:"seconds"` // wall time spent on the case
	// Attachments are the files that the host attached to the case.
	Attachments []Attachment `json:"attachments,omitempty"`
}

// Rows are rows of a case that has not ended. The result repeats all of them. They only count
// if there is no result, because the process died or a deadline passed.
type Rows struct {
	Seq  int64 `json:"seq"`
	Rows []Row `json:"rows"`
}

// Error ends a case that failed. Rows are the finished points of a case that sweeps.
type Error struct {
	Type string `json:"type"`
	Seq  int64  `json:"seq"`
	Rows []Row  `json:"rows,omitempty"`
	// Attachments of failed cases are kept, such as the log of a server that died.
	Attachments []Attachment `json:"attachments,omitempty"`
	Failure
}

// Failure is an error of a case or worker.
type Failure struct {
	// Class is one of the failure classes, or "" if the engine's rules decide from Exception and
	// Message.
	Class     string `json:"class,omitempty"`
	Exception string `json:"exception,omitempty"` // class name of the exception, or signal
	Message   string `json:"message"`
	Traceback string `json:"traceback,omitempty"`
	// Fatal is true if the worker's context is unusable, as after a sticky CUDA error. The
	// process is replaced before the next case.
	Fatal bool `json:"fatal,omitempty"`
}

func (f *Failure) Error() string {
	if f.Exception != "" {
		return f.Exception + ": " + f.Message
	}
	return f.Message
}

// Log is a log line for the user.
type Log struct {
	Type  string `json:"type"`
	Level string `json:"level"` // debug, info, warn, error
	Text  string `json:"text"`
}

// Bye is the last message of a worker that ends by itself. Restart is the reason if it
// requests a new process.
type Bye struct {
	Type    string `json:"type"`
	Restart string `json:"restart,omitempty"`
}

// Failure classes, by who can fix the failure.
const (
	ClassCollectorBug      = "collector_bug"      // the op's own code is wrong
	ClassUnsupportedConfig = "unsupported_config" // this device or version has no such kernel
	ClassFrameworkBug      = "framework_bug"      // the framework rejects or crashes on a valid case
	ClassResourceIssue     = "resource_issue"     // memory, disk, descriptors
	ClassTransient         = "transient"          // may pass if it is tried again
	ClassTimeout           = "timeout"            // ran past its deadline
)
