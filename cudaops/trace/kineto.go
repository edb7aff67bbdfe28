package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Meta describes the process of a trace. Zero values mean unknown.
type Meta struct {
	Rank      *int   `json:"rank"`
	WorldSize *int   `json:"world_size"`
	Device    string `json:"device_name,omitempty"`
	NCCL      string `json:"nccl_version,omitempty"`
}

// maxRanges limits the number of named ranges kept for steps.
const maxRanges = 1 << 20

// readKineto reads a PyTorch profiler or Chrome trace.
func readKineto(r io.Reader, rec *recording) error {
	s := newScanner(r)
	found := false

	switch s.token() {
	case '[':
		found = true
		s.pos++
		if err := readEvents(s, rec); err != nil {
			return err
		}

	case '{':
		s.pos++
		var err error
		if found, err = readTop(s, rec); err != nil {
			return err
		}

	case 0:
		if s.err != nil {
			return s.err
		}
		return errors.New("the file is empty")

	default:
		return errors.New("neither a Kineto or Chrome trace (JSON) nor an export of nsys (nsys export --type sqlite)")
	}

	if rec.broken > 0 && rec.broken == rec.events {
		return rec.wrong
	}

	if s.err != nil {
		rec.cut = fmt.Sprintf("reading stopped at byte %d of the uncompressed trace: %v", s.offset(), s.err)
	} else if rec.cut == "" {
		rec.tail(s)
	}

	if !found {
		if rec.cut != "" {
			return fmt.Errorf("no traceEvents: %s", rec.cut)
		}
		return fmt.Errorf("the JSON object has no traceEvents: it is not a profiler trace")
	}

	return nil
}

// readTop reads the members of the outer object. found is true if it has traceEvents.
func readTop(s *scanner, rec *recording) (found bool, err error) {
	for {
		switch s.token() {
		case '}':
			s.pos++
			return found, nil
		case ',':
			s.pos++
			continue
		case '"':
		case 0:
			rec.endsAt(s)
			return found, nil
		default:
			return found, fmt.Errorf("byte %d: a member of the trace object does not start with a quote", s.offset())
		}

		key, err := s.value()
		if err != nil {
			rec.endsAt(s)
			return found, nil
		}

		name := string(key[1 : len(key)-1])
		if s.token() != ':' {
			if s.token() == 0 {
				rec.endsAt(s)
				return found, nil
			}
			return found, fmt.Errorf("byte %d: no colon behind the key %q", s.offset(), name)
		}

		s.pos++
		if name == "traceEvents" {
			if s.token() != '[' {
				return found, fmt.Errorf("byte %d: traceEvents is no array", s.offset())
			}
			s.pos++
			found = true
			if err := readEvents(s, rec); err != nil || rec.cut != "" {
				return found, err
			}
			continue
		}

		v, err := s.value()
		if err == errShort {
			rec.endsAt(s)
			return found, nil
		}

		if err != nil {
			return found, fmt.Errorf("byte %d: the value of %q: %w", s.offset(), name, err)
		}

		rec.meta.take(name, v)
	}
}

func (r *recording) endsAt(s *scanner) {
	if r.cut == "" {
		r.cut = fmt.Sprintf("the file ends in the middle, at byte %d of the uncompressed trace",
			s.base+int64(len(s.buf)))
	}
}

// tail reads to the end of the file, which also verifies checksums of compressed files.
func (r *recording) tail(s *scanner) {
	n, err := s.rest()
	switch {
	case err != nil:
		r.behind = fmt.Sprintf("the trace is whole, but the end of the file cannot be read: %v", err)
	case n > 0:
		r.behind = fmt.Sprintf("%d bytes behind the end of the trace were not read", n)
	}
}

var errNoObject = errors.New("it is no object")

// readEvents reads the elements of the event array including its closing bracket.
func readEvents(s *scanner, rec *recording) error {
	e := eventReader{rec: rec, open: map[string][]begin{}}
	for {
		switch s.token() {
		case ']':
			s.pos++
			e.close()
			return nil
		case ',':
			s.pos++
			continue
		case 0:
			rec.endsAt(s)
			return nil
		}

		at := s.offset()
		v, err := s.value()
		if err == errShort {
			rec.endsAt(s)
			return nil
		}

		if err != nil {
			return fmt.Errorf("byte %d: event %d: %w", at, rec.events, err)
		}

		if string(v) == "null" { // some writers append it after the last comma
			continue
		}

		rec.events++
		wrong := errNoObject
		if v[0] == '{' {
			wrong = e.event(v)
		}
		if wrong == nil {
			continue
		}

		// Its brackets match, so reading can continue with the next event.
		if rec.broken++; rec.wrong == nil {
			rec.wrong = fmt.Errorf("byte %d: event %d: %w", at, rec.events-1, wrong)
		}
	}
}

// traceEvent is an event of a trace. Its members are JSON values as written, except that ph, cat, ts and dur have no
// quotes.
type traceEvent struct{ ph, cat, name, pid, tid, ts, dur, args []byte }

// class is what an event is about, according to its category.
type class int

const (
	other class = iota
	kernelEvent
	copyEvent
	launchEvent // a call of the CUDA or HIP API
	rangeEvent
	pythonEvent
	operatorEvent
)

func (e *traceEvent) class() class {
	switch string(e.cat) {
	case "kernel":
		return kernelEvent
	case "gpu_memcpy", "gpu_memset", "Memcpy", "Memset":
		return copyEvent
	case "cuda_runtime", "cuda_driver", "Runtime":
		return launchEvent
	case "user_annotation", "gpu_user_annotation":
		return rangeEvent
	case "python_function":
		return pythonEvent
	case "cpu_op":
		return operatorEvent
	}

	if len(e.cat) >= len("kernel") && bytes.Contains(bytes.ToLower(e.cat), []byte("kernel")) {
		return kernelEvent
	}
	return other
}

// onGPU reports whether a range was projected onto a device.
func (e *traceEvent) onGPU() bool { return bytes.HasPrefix(e.cat, []byte("gpu_")) }

// thread identifies the thread of an event.
func (e *traceEvent) thread() string { return string(e.pid) + " " + string(e.tid) }

// begin is an open B event.
type begin struct {
	traceEvent
	ts    int64
	timed bool // ts is valid
}

// maxOpen limits the number of open B events per thread.
const maxOpen = 1000

type eventReader struct {
	rec  *recording
	open map[string][]begin // open B events by thread
}

// event handles one event. It stops parsing as soon as the category shows that the event is irrelevant.
func (r *eventReader) event(obj []byte) error {
	var e traceEvent
	ignored := false
	err := members(obj, func(k, v []byte) bool {
		switch string(k) {
		case "ph":
			e.ph = unquote(v)
		case "cat":
			e.cat = unquote(v)
		case "name":
			e.name = v
		case "pid":
			e.pid = v
		case "tid":
			e.tid = v
		case "ts":
			e.ts = unquote(v)
		case "dur":
			e.dur = unquote(v)
		case "args":
			e.args = v
		}
		ignored = e.cat != nil && r.ignorable(&e)
		return !ignored
	})

	if c := e.class(); e.pid != nil && (c == launchEvent || c == operatorEvent) {
		r.rec.hosts[string(e.pid)] = true
	}
	if err != nil || ignored {
		return err
	}

	switch string(e.ph) {
	case "X":
		r.complete(&e)

	case "B":
		if c := e.class(); c != kernelEvent && c != rangeEvent && c != pythonEvent {
			return nil
		}
		stack := r.open[e.thread()]
		if len(stack) == maxOpen {
			r.untimed(&e)
			return nil
		}
		t, err := nanoseconds(e.ts)
		kept := traceEvent{cat: bytes.Clone(e.cat), name: bytes.Clone(e.name), args: bytes.Clone(e.args)}
		r.open[e.thread()] = append(stack, begin{traceEvent: kept, ts: t, timed: err == nil})

	case "E":
		stack := r.open[e.thread()]
		if len(stack) == 0 {
			return nil
		}
		b := stack[len(stack)-1]
		r.open[e.thread()] = stack[:len(stack)-1]
		b.pid, b.tid = e.pid, e.tid
		if t, err := nanoseconds(e.ts); err == nil && b.timed && usable(b.ts, t-b.ts) {
			r.take(&b.traceEvent, interval{b.ts, t})
		} else {
			r.untimed(&b.traceEvent)
		}

	case "M":
		if string(e.name) == `"process_name"` {
			pid, name := string(decoded(e.pid)), string(decoded(member(e.args, "name")))
			if r.rec.processes[pid] == nil {
				r.rec.processes[pid] = map[string]bool{}
			}
			r.rec.processes[pid][name] = true
		}
	}

	return nil
}

func (r *eventReader) complete(e *traceEvent) {
	start, errStart := nanoseconds(e.ts)
	switch e.class() {
	case other:
		return
	case launchEvent:
		if errStart == nil {
			r.rec.calls.launch(e.thread(), start, string(member(e.args, "correlation")))
		}
		return
	}

	d, errDur := nanoseconds(e.dur)
	if errStart != nil || errDur != nil || !usable(start, d) {
		r.untimed(e)
		return
	}
	r.take(e, interval{start, start + d})
}

// untimed counts kernels and steps without a usable time. Other ranges do not matter.
func (r *eventReader) untimed(e *traceEvent) {
	switch {
	case e.class() == kernelEvent:
		r.rec.skipped++
	case isStep(string(decoded(e.name))):
		r.rec.unsteps++
	}
}

// close counts B events without an E event.
func (r *eventReader) close() {
	for _, stack := range r.open {
		for _, b := range stack {
			r.untimed(&b.traceEvent)
		}
	}
}

// take records a kernel, a copy, or a range of the host or of its projection onto a device.
func (r *eventReader) take(e *traceEvent, iv interval) {
	rec, name, class := r.rec, decoded(e.name), e.class()
	if class == kernelEvent || class == copyEvent {
		a := e.details()
		d := rec.device(a.origin)
		if class == copyEvent {
			d.copies = append(d.copies, iv)
			return
		}

		d.rank = a.rank
		if a.blocks >= 0 {
			d.cover(iv, a.blocks)
		}

		c := &rec.calls
		if a.kind == "" && c.any() && rec.names[rec.nameOf(name, collective{})].rule >= 0 {
			c.pending = append(c.pending, launched{d: d, name: bytes.Clone(name), iv: iv, launch: a.launch,
				correlation: string(a.correlation)})
			return
		}
		rec.add(d, name, iv, a.launch, a.collective)
		return
	}

	if isCall(name) && !e.onGPU() {
		of := e.details().collective
		if kind, ok := bytes.CutPrefix(name, ncclRange); ok {
			of = collective{kind: kindOf(string(kind))}
		}
		rec.calls.add(e.thread(), iv, of)
		return
	}

	if n := string(name); isStep(n) && len(rec.ranges) < maxRanges {
		s, a := span{interval: iv, name: n, onGPU: e.onGPU()}, e.details()
		if s.onGPU {
			s.origin = a.origin
		} else {
			s.process = processOf(a.pid, a.rank)
		}
		rec.ranges = append(rec.ranges, s)
	}
}

// ignorable reports whether an event can be skipped. The name may be unknown yet. Most events of a trace with
// stacks are ignorable.
func (r *eventReader) ignorable(e *traceEvent) bool {
	switch e.class() {
	case operatorEvent:
		return e.pid != nil && e.name != nil && !isCall(unquote(e.name))
	case pythonEvent:
		return e.name != nil && !isStep(string(unquote(e.name)))
	case launchEvent:
		return e.pid != nil && !r.rec.calls.any() || e.name != nil && !bytes.Contains(e.name, []byte("Launch"))
	case other:
		return e.ph != nil && !bytes.Contains([]byte("BEM"), e.ph)
	}
	return false
}

// details are the arguments of a kernel, a copy or a CPU event of a collective.
type details struct {
	collective
	origin      // the device is the process id if there is none
	rank        *int
	launch      launch
	correlation []byte
	blocks      float64 // thread blocks per SM, -1 if unknown
}

// details parses the arguments of an event. The collective is empty unless PyTorch describes it.
func (e *traceEvent) details() details {
	a := details{origin: origin{device: string(unquote(e.pid)), pid: string(decoded(e.pid))}, blocks: -1}
	if len(e.args) == 0 || e.args[0] != '{' {
		return a
	}

	var of collective
	var in, out int64
	var dtype, ranks string
	var stream []byte
	found := false
	_ = members(e.args, func(k, v []byte) bool {
		switch string(k) {
		case "device":
			a.device = string(unquote(v))
		case "rank": // of tools that merge traces
			a.rank = number(string(unquote(v)))
		case "stream":
			stream = v
		case "correlation":
			a.correlation = v
		case "blocks per SM":
			if n, err := strconv.ParseFloat(string(unquote(v)), 64); err == nil && n >= 0 {
				a.blocks = n
			}
		case "Collective name":
			found, of.kind = true, kindOf(string(decoded(v)))
		case "Process Group Name":
			of.group = string(decoded(v))
		case "Process Group Ranks":
			ranks = string(decoded(v))
		case "Group size":
			of.size = integer(v)
		case "In msg nelems":
			in = integer(v)
		case "Out msg nelems":
			out = integer(v)
		case "dtype":
			dtype = string(unquote(v))
		}
		return true
	})

	a.launch = launchOf(stream, a.correlation)
	if !found {
		return a
	}

	if ranks != "" && of.group != "" { // names are reused across worlds and across different groups of one world
		of.group += " " + ranks
	}

	if n, per := max(in, out), dtypeBytes(dtype); per > 0 && n <= maxMessage/per {
		of.bytes = n * per
	}

	a.collective = of
	return a
}

// member returns the value of a member of an object, or nil.
func member(obj []byte, name string) (value []byte) {
	if len(obj) == 0 || obj[0] != '{' {
		return nil
	}
	_ = members(obj, func(k, v []byte) bool { // an object that cannot be read has no member
		if string(k) == name {
			value = v
		}
		return value == nil
	})
	return value
}

// maxMessage is the largest plausible message size in bytes.
const maxMessage = 1 << 50

// dtypeBytes returns the size of a PyTorch dtype in bytes, or 0 if unknown.
func dtypeBytes(name string) int64 {
	switch strings.ToLower(strings.TrimPrefix(name, "torch.")) {
	case "byte", "char", "bool", "uint8", "int8", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz":
		return 1
	case "half", "bfloat16", "float16", "short", "int16", "uint16":
		return 2
	case "float", "int", "float32", "int32", "uint32":
		return 4
	case "double", "long", "float64", "int64", "uint64", "complexfloat":
		return 8
	}
	return 0
}

// integer parses a non-negative number that may be quoted. It returns 0 if it is invalid.
func integer(v []byte) int64 {
	n, err := strconv.ParseInt(string(unquote(v)), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// unquote removes quotes but does not resolve escapes.
func unquote(v []byte) []byte {
	if len(v) >= 2 && v[0] == '"' {
		return v[1 : len(v)-1]
	}
	return v
}

// decoded returns the text of a JSON string.
func decoded(v []byte) []byte {
	if len(v) < 2 || v[0] != '"' {
		return v
	}

	if bytes.IndexByte(v, '\\') < 0 {
		return v[1 : len(v)-1]
	}

	var s string
	if json.Unmarshal(v, &s) != nil {
		return v[1 : len(v)-1]
	}
	return []byte(s)
}

// take stores known members of the outer object.
func (m *Meta) take(name string, v []byte) {
	switch name {
	case "distributedInfo":
		var d struct {
			Rank      *int   `json:"rank"`
			WorldSize *int   `json:"world_size"`
			NCCL      string `json:"nccl_version"`
		}
		if json.Unmarshal(v, &d) == nil {
			m.Rank, m.WorldSize, m.NCCL = d.Rank, d.WorldSize, d.NCCL
		}

	case "deviceProperties":
		var d []struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(v, &d) == nil && len(d) > 0 {
			m.Device = d[0].Name
		}
	}
}
