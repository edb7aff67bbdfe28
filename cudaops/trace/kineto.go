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
	rec.copying = true

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
		return fmt.Errorf("the file is empty")

	default:
		return fmt.Errorf("neither a Kineto or Chrome trace (JSON) nor the CSV of nsys stats --report cuda_gpu_trace")
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
		read := map[string]func(*scanner, *recording) error{"traceEvents": readEvents, "nodes": readNodes}[name]
		if read != nil && (name == "traceEvents" || s.token() == '[') {
			if s.token() != '[' {
				return found, fmt.Errorf("byte %d: traceEvents is no array", s.offset())
			}
			s.pos++
			found = true
			if err := read(s, rec); err != nil || rec.cut != "" {
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
	err := elementsOf(s, rec, func(v []byte) error {
		if v[0] != '{' {
			return errNoObject
		}
		return e.event(v)
	})
	if err == nil && rec.cut == "" {
		e.close()
	}
	return err
}

// elementsOf calls f for each element of an array up to its closing bracket, and counts them as events. Elements
// for which f returns an error are counted as broken.
func elementsOf(s *scanner, rec *recording, f func(element []byte) error) error {
	for {
		switch s.token() {
		case ']':
			s.pos++
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
		wrong := f(v)
		if wrong == nil {
			continue
		}

		// Its brackets match, so reading can continue with the next event.
		if rec.broken++; rec.wrong == nil {
			rec.wrong = fmt.Errorf("byte %d: event %d: %w", at, rec.events-1, wrong)
		}
	}
}

// begin is an open B event.
type begin struct {
	cat, name string
	ts        int64
	timed     bool // ts is valid
	args      []byte
}

// maxOpen limits the number of open B events per thread.
const maxOpen = 1000

type eventReader struct {
	rec  *recording
	open map[string][]begin // open B events by pid and tid
}

// event handles one event. It stops parsing as soon as the category shows that the event is irrelevant.
func (e *eventReader) event(obj []byte) error {
	var ph, cat, name, pid, tid, ts, dur, args []byte
	err := members(obj, func(k, v []byte) bool {
		switch string(k) {
		case "ph":
			ph = unquote(v)

		case "cat":
			cat = unquote(v)
			return !e.ignorable(cat, name)

		case "name":
			name = v
			return cat == nil || !e.ignorable(cat, name)

		case "pid":
			pid = v

		case "tid":
			tid = v

		case "ts":
			ts = unquote(v)

		case "dur":
			dur = unquote(v)

		case "args":
			args = v
		}

		return true
	})

	if err != nil {
		return err
	}

	if e.ignorable(cat, name) {
		return nil
	}

	switch string(ph) {
	case "X":
		return e.complete(cat, name, pid, tid, args, ts, dur)

	case "B":
		if !isKernel(cat) && !isRange(cat) {
			return nil
		}
		key := string(pid) + " " + string(tid)
		if len(e.open[key]) == maxOpen {
			e.untimed(cat, name)
			return nil
		}
		t, err := nanoseconds(ts)
		e.open[key] = append(e.open[key], begin{cat: string(cat), name: string(name), ts: t, timed: err == nil,
			args: bytes.Clone(args)})

	case "E":
		key := string(pid) + " " + string(tid)
		stack := e.open[key]
		if len(stack) == 0 {
			return nil
		}
		b := stack[len(stack)-1]
		e.open[key] = stack[:len(stack)-1]
		if t, err := nanoseconds(ts); err == nil && b.timed && usable(b.ts, t-b.ts) {
			e.take([]byte(b.cat), []byte(b.name), pid, tid, b.args, interval{b.ts, t})
		} else {
			e.untimed([]byte(b.cat), []byte(b.name))
		}
	}

	return nil
}

func (e *eventReader) complete(cat, name, pid, tid, args, ts, dur []byte) error {
	start, errStart := nanoseconds(ts)
	if isLaunch(cat) {
		if errStart == nil {
			e.rec.calls.launch(string(pid)+" "+string(tid), start, string(member(args, "correlation")))
		}
		return nil
	}

	if !isKernel(cat) && !isRange(cat) && !isCopy(cat) && string(cat) != "cpu_op" {
		return nil
	}

	d, errDur := nanoseconds(dur)
	if errStart != nil || errDur != nil || !usable(start, d) {
		e.untimed(cat, name)
		return nil
	}

	e.take(cat, name, pid, tid, args, interval{start, start + d})
	return nil
}

// untimed counts kernels and steps without a usable time. Other ranges do not matter.
func (e *eventReader) untimed(cat, name []byte) {
	switch {
	case isKernel(cat):
		e.rec.skipped++
	case isStep(string(decoded(name))):
		e.rec.unsteps++
	}
}

// close counts B events without an E event.
func (e *eventReader) close() {
	for _, stack := range e.open {
		for _, b := range stack {
			e.untimed([]byte(b.cat), []byte(b.name))
		}
	}
}

func (e *eventReader) take(cat, name, pid, tid, args []byte, iv interval) {
	text := decoded(name)
	if !isKernel(cat) && !isCopy(cat) {
		e.takeRange(cat, text, pid, tid, args, iv)
		return
	}

	a := readArgs(args, pid)
	d := e.rec.device(a.device, string(decoded(pid)))
	if isCopy(cat) {
		d.copies = append(d.copies, iv)
		return
	}

	if a.blocks >= 0 {
		d.cover(iv, a.blocks)
	}

	c := &e.rec.calls
	if a.kind == "" && c.any() && e.rec.ruleOf(text) >= 0 {
		c.pending = append(c.pending, launched{d: d, name: bytes.Clone(text), iv: iv, mark: a.mark,
			correlation: string(a.correlation)})
		return
	}
	e.rec.add(d, text, iv, a.mark, a.collective)
}

// takeRange records a range of the host or its projection onto a device.
func (e *eventReader) takeRange(cat, name, pid, tid, args []byte, iv interval) {
	onGPU := bytes.HasPrefix(cat, []byte("gpu_"))
	if isCall(name) && !onGPU {
		of := readArgs(args, pid).collective
		if kind, ok := bytes.CutPrefix(name, ncclRange); ok {
			of = collective{kind: kindOf(string(kind))}
		}
		e.rec.calls.add(string(pid)+" "+string(tid), iv, of)
		return
	}

	if n := string(name); isStep(n) && len(e.rec.ranges) < maxRanges {
		s := span{interval: iv, name: n, onGPU: onGPU, pid: string(decoded(pid))}
		if onGPU {
			s.device = readArgs(args, pid).device
		}
		e.rec.ranges = append(e.rec.ranges, s)
	}
}

// ignorable reports whether an event can be skipped. name may be nil if it is not known yet. Most events of a
// trace with stacks are ignorable.
func (e *eventReader) ignorable(cat, name []byte) bool {
	switch string(cat) {
	case "ac2g", "fwdbwd", "overhead":
		return true
	case "cpu_op":
		return name != nil && !isCall(unquote(name))
	case "python_function":
		return name != nil && !isStep(string(unquote(name)))
	}
	return isLaunch(cat) && (!e.rec.calls.any() || name != nil && !bytes.Contains(name, []byte("Launch")))
}

// isLaunch reports whether events of the category are calls of the CUDA or HIP API.
func isLaunch(cat []byte) bool {
	switch string(cat) {
	case "cuda_runtime", "cuda_driver", "Runtime":
		return true
	}
	return false
}

func isCopy(cat []byte) bool {
	switch string(cat) {
	case "gpu_memcpy", "gpu_memset", "Memcpy", "Memset":
		return true
	}
	return false
}

func isKernel(cat []byte) bool {
	return string(cat) == "kernel" || len(cat) >= 6 && bytes.Contains(bytes.ToLower(cat), []byte("kernel"))
}

func isRange(cat []byte) bool {
	switch string(cat) {
	case "user_annotation", "gpu_user_annotation", "python_function":
		return true
	}
	return false
}

// eventArgs are the arguments of a kernel, a copy or a CPU event of a collective.
type eventArgs struct {
	collective
	device      string // the process id if there is no device
	mark        uint16 // of the launch
	correlation []byte
	blocks      float64 // thread blocks per SM, -1 if unknown
}

// readArgs reads the arguments of an event. The collective is empty unless PyTorch describes it.
func readArgs(args, pid []byte) eventArgs {
	a := eventArgs{device: string(unquote(pid)), blocks: -1}
	if len(args) == 0 || args[0] != '{' {
		return a
	}

	var of collective
	var in, out int64
	var dtype, ranks string
	var stream []byte
	found := false
	_ = members(args, func(k, v []byte) bool {
		switch string(k) {
		case "device":
			a.device = string(unquote(v))

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

	a.mark = markOf(stream, a.correlation)
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
