// Package worker runs cases in subprocesses: the protocol, the engine's side
// (supervisor and pool) and the worker's side (Serve).
//
// A worker is a process with two inherited descriptors: it reads newline-
// delimited JSON from fd 3 and writes it to fd 4 (AICPLAN_FD_IN and
// AICPLAN_FD_OUT name them). Its stdout and stderr go to a log file, because
// frameworks print there. The first message of a worker is hello. The engine
// keeps up to hello.window cases outstanding; the worker is free to choose the
// order among those it holds, says start when it begins to work on one and
// ends each with exactly one result or error. The case that was started last
// and not ended is the one to blame when the process dies or a deadline runs
// out; the others it held are given to another worker and lose no attempt. A
// worker past a deadline gets SIGQUIT, a chance to print its stacks into the
// log, and SIGKILL one second later, together with all it has started.
package worker

import "encoding/json"

// ProtocolVersion is raised when old and new sides would misunderstand each
// other; a hello with another version ends the worker with a clear error.
const ProtocolVersion = 1

// Message types.
const (
	TypeInit     = "init"     // engine -> worker, once, first
	TypeHello    = "hello"    // worker -> engine, once, answer to init
	TypeCase     = "case"     // engine -> worker
	TypeStart    = "start"    // worker -> engine: work on seq begins
	TypeRows     = "rows"     // worker -> engine: some rows of seq, before its end
	TypeResult   = "result"   // worker -> engine: seq is measured
	TypeError    = "error"    // worker -> engine: seq failed
	TypeLog      = "log"      // worker -> engine: one line for the event file
	TypeBeat     = "beat"     // worker -> engine: still alive (extends nothing)
	TypeShutdown = "shutdown" // engine -> worker: end after what is in flight
	// TypeConfigure replaces parts of init for the cases that follow. It is sent
	// only to workers whose hello says configure, and only while they hold no
	// case; there is no answer.
	TypeConfigure = "configure" // engine -> worker
	TypeBye       = "bye"       // worker -> engine: clean end; Restart says why
	// TypeAsk is a question that the engine decides, at any time, before hello
	// too. The worker waits for the answer; cases may arrive before it.
	TypeAsk    = "ask"    // worker -> engine
	TypeAnswer = "answer" // engine -> worker
	// TypeMeasure is a message between a worker and the instrument of its device,
	// in both directions; see Spec.Instrument.
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
	// Spool is a folder of the worker's own for the files of attachments; it need
	// not be there. Empty means that only small ones can be attached.
	Spool string `json:"spool,omitempty"`
	// Blocks are the blocks of the collect that the kind of the runtime has, by
	// name: one JSON object.
	Blocks json.RawMessage `json:"blocks,omitempty"`
	// Reads are the files that the op reads.
	Reads []Read            `json:"reads,omitempty"`
	Env   map[string]string `json:"env,omitempty"`
}

// Hello is a worker's first message.
type Hello struct {
	Type       string            `json:"type"`
	Protocol   int               `json:"protocol"`
	Pid        int               `json:"pid"`
	Framework  string            `json:"framework,omitempty"` // label, where the runtime block gives none
	Version    string            `json:"version"`             // of the framework's package
	Device     string            `json:"device"`              // e.g. "NVIDIA H200", or the CPU's model name
	DeviceUUID string            `json:"device_uuid,omitempty"`
	Window     int               `json:"window"` // cases it may hold; at least 1
	Ops        []string          `json:"ops"`
	Env        map[string]string `json:"env,omitempty"`
	// Configure says that the worker takes configure messages. Without it, other
	// settings cost a new process.
	Configure bool `json:"configure,omitempty"`
	// Error is set when the worker cannot work at all (framework missing,
	// import error): class and text; the process then ends.
	Error *Failure `json:"error,omitempty"`
}

// Configure replaces the measure settings, the op bindings and the seed of
// init: one worker serves several stages without starting its framework again.
type Configure struct {
	Type    string          `json:"type"`
	Measure json.RawMessage `json:"measure,omitempty"`
	Ops     json.RawMessage `json:"ops,omitempty"`
	Blocks  json.RawMessage `json:"blocks,omitempty"`
	Reads   []Read          `json:"reads,omitempty"`
	Seed    int64           `json:"seed"`
}

// Read is a stage whose files an op reads.
type Read struct {
	Stage string   `json:"stage"` // its address
	Dir   string   `json:"dir"`   // the output folder, absolute
	Files []string `json:"files"` // what the stage wrote, absolute
}

// Question is what a worker asks: what a version of its framework means.
type Question struct {
	Type    string `json:"type"`
	What    string `json:"what"` // "requires", "compat" or "route"
	Version string `json:"version"`
	// Specifier is a PEP 440 specifier, of requires and compat.
	Specifier string `json:"specifier,omitempty"`
	// Minima are the versions from which on something holds, of route.
	Minima []string `json:"minima,omitempty"`
}

// Answer is the engine's answer to a Question.
type Answer struct {
	Type   string `json:"type"`
	Met    bool   `json:"met"`    // requires, compat: the version meets the specifier
	Index  int    `json:"index"`  // route: the newest of the minima that is met; -1 for none
	Oldest int    `json:"oldest"` // route: the oldest of the minima
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
	// Attempt counts from 1 how often the case was given to a worker; innocent
	// losses do not count.
	Attempt int `json:"attempt,omitempty"`
}

// Start says that the worker begins to work on a case and arms the case's
// deadline. A case that is visited more than once is started at every visit.
type Start struct {
	Type string `json:"type"`
	Seq  int64  `json:"seq"`
}

// Row is one measured row: metric and key columns by name. Values are JSON
// scalars; columns that equal the case's parameters need not be repeated. JSON
// has no NaN and no infinities: they are written as the strings "NaN",
// "Infinity" and "-Infinity", and a latency like that becomes a failure of the
// case, never a row.
type Row map[string]any

// Attachment is a file that belongs to a case: a trace, a request log, a series
// of telemetry. The engine keeps it as an object with the case's rows.
type Attachment struct {
	Name      string `json:"name"`       // unique within the case, without slashes
	MediaType string `json:"media_type"` // such as application/jsonl
	// File is the name of a file in Init.Spool, which the engine takes away.
	File string `json:"file,omitempty"`
	// Data are the bytes of small ones, at most MaxAttachmentData; File wins.
	Data []byte `json:"data,omitempty"`
}

// MaxAttachmentData bounds Attachment.Data, in bytes: larger ones are files.
const MaxAttachmentData = 1 << 20

// CaseResult ends a case with its rows (more than one when it sweeps).
type CaseResult struct {
	Type    string  `json:"type"`
	Seq     int64   `json:"seq"`
	Rows    []Row   `json:"rows"`
	Seconds float64 `json:"seconds"` // wall time spent on the case
	// Attachments are what the host attached before it ended the case.
	Attachments []Attachment `json:"attachments,omitempty"`
}

// Rows are rows of a case in work, in the order of their messages. Its end says
// them all again; they count where there is none, because the process died or ran
// out of its deadline.
type Rows struct {
	Type string `json:"type"`
	Seq  int64  `json:"seq"`
	Rows []Row  `json:"rows"`
}

// Error ends a case that failed. Rows are those that were finished before it:
// a case that sweeps keeps the points that they are for.
type Error struct {
	Type string `json:"type"`
	Seq  int64  `json:"seq"`
	Rows []Row  `json:"rows,omitempty"`
	// Attachments are kept of failed cases too: the log of a server that died.
	Attachments []Attachment `json:"attachments,omitempty"`
	Failure
}

// Failure says what went wrong.
type Failure struct {
	// Class is one of the failure classes, or "" to let the engine's rules
	// decide from Type and Message.
	Class     string `json:"class,omitempty"`
	Exception string `json:"exception,omitempty"` // class name of the exception, or signal
	Message   string `json:"message"`
	Traceback string `json:"traceback,omitempty"`
	// Fatal says that the worker's context is unusable (sticky CUDA error): the
	// process must be replaced before the next case.
	Fatal bool `json:"fatal,omitempty"`
}

// Log is a line that the user may want to see.
type Log struct {
	Type  string `json:"type"`
	Level string `json:"level"` // debug, info, warn, error
	Text  string `json:"text"`
}

// Bye is a worker's last message when it ends by itself. Restart is set when
// the worker asks for a fresh process (after a restart sentinel or exit 10).
type Bye struct {
	Type    string `json:"type"`
	Restart string `json:"restart,omitempty"`
}
