package aiperf

import (
	"math"
	"strconv"

	"aicplan/cudaops/load/openai"
)

// AppendRecord appends one line of profile_export.jsonl. worker is the name of the sender. warmedUp is true
// if the run has a warm-up phase. It does not allocate if b has enough capacity.
func AppendRecord(b []byte, r *Record, v *Values, streaming, warmedUp bool, worker string) []byte {
	key := func(name string) {
		b = append(append(append(b, ',', '"'), name...), '"', ':')
	}

	str := func(name, value string) {
		key(name)
		b = openai.AppendString(b, value)
	}

	id := func(name, value string) { // has no characters to escape
		key(name)
		b = append(append(append(b, '"'), value...), '"')
	}

	num := func(name string, value int64) {
		key(name)
		b = strconv.AppendInt(b, value, 10)
	}

	phase, index := Profiling, int64(0)
	if warmedUp {
		index = 1
	}

	if r.Warmup {
		phase, index = Warmup, 0
	}

	b = append(b, `{"metadata":{"session_num":`...)
	b = strconv.AppendInt(b, int64(r.Number), 10)
	id("x_request_id", r.ID)
	id("x_correlation_id", r.Correlation)
	str("conversation_id", r.Conversation)
	num("turn_index", int64(r.Turn))
	num("credit_issued_ns", r.Credit)
	num("request_start_ns", r.Start)
	if r.Ack > 0 {
		num("request_ack_ns", r.Ack)
	}

	num("request_end_ns", r.Finish)
	str("worker_id", worker)
	str("record_processor_id", worker)
	id("benchmark_phase", phase)
	num("phase_index", index)
	if !r.Warmup {
		num("profiling_index", 0)
	}

	id("phase_name", phase)
	id("phase_kind", phase)
	if r.Cancelled {
		b = append(b, `,"was_cancelled":true`...)
		num("cancellation_time_ns", r.Finish)
	} else {
		b = append(b, `,"was_cancelled":false`...)
	}

	b = append(b, `,"context_overflow_skip":false,"agent_depth":0`...)
	id("root_correlation_id", r.Correlation)
	b = append(b, `},"metrics":{`...)
	start := len(b)
	for i := range nPerRequest {
		if v == nil || math.IsNaN(v[i]) ||
			i == CreditToStart || i == EffectiveLatency { // AIPerf writes the two to its summaries only
			continue
		}
		f := &recordFields[i]
		b = append(b, f.before...)
		if f.integer {
			b = strconv.AppendInt(b, int64(v[i]), 10)
		} else {
			b = appendFloat(b, v[i])
		}
		b = append(b, f.after...)
	}

	if streaming && r.Err == nil && len(r.Times) > 1 {
		f := &recordFields[nPerRequest]
		b = append(append(b, f.before...), '[')
		for i := 1; i < len(r.Times); i++ {
			if i > 1 {
				b = append(b, ',')
			}
			b = appendFloat(b, float64(r.Times[i]-r.Times[i-1])/1e6)
		}
		b = append(append(b, ']'), f.after...)
	}

	if len(b) > start {
		b = b[:len(b)-1] // the last comma
	}
	b = append(b, '}')
	if e := r.Err; e != nil {
		b = append(b, `,"error":{`...)
		if e.Code > 0 {
			b = append(b, `"code":`...)
			b = strconv.AppendInt(b, int64(e.Code), 10)
			b = append(b, ',')
		}
		b = append(b, `"type":`...)
		b = openai.AppendString(b, e.Type)
		b = append(b, `,"message":`...)
		b = openai.AppendString(b, e.Message)
		b = append(b, '}')
	}

	return append(b, '}', '\n')
}

// recordField is what a line has around the value of a metric.
type recordField struct {
	before, after string
	integer       bool
}

// recordFields are the fields by index of Values, and that of the gaps between messages.
var recordFields = func() (fields [nPerRequest + 1]recordField) {
	for i, d := range defs[:nPerRequest+1] {
		fields[i] = recordField{`"` + d.Tag + `":{"value":`, `,"unit":"` + d.Unit + `"},`, d.Integer}
	}
	return
}()

// appendFloat appends the shortest text of a number, with a decimal point.
func appendFloat(b []byte, v float64) []byte {
	if v == 0 {
		return append(b, '0', '.', '0')
	}

	// Most values are milliseconds of whole nanoseconds. Their shortest text is that of the nanoseconds.
	if ns := math.Round(v * 1e6); ns >= 0 && ns < 1e15 && ns/1e6 == v && v >= 1e-4 {
		return appendMillionths(b, uint64(ns))
	}

	n := len(b)
	b = strconv.AppendFloat(b, v, 'g', -1, 64)

	for _, c := range b[n:] {
		if c == '.' || c == 'e' {
			return b
		}
	}
	return append(b, '.', '0')
}

// appendMillionths appends n / 1e6 with one to six decimals.
func appendMillionths(b []byte, n uint64) []byte {
	b = strconv.AppendUint(b, n/1e6, 10)
	decimals := [7]byte{0: '.'}
	for i, rest := 6, n%1e6; i > 0; i-- {
		decimals[i] = byte('0' + rest%10)
		rest /= 10
	}

	length := len(decimals)
	for length > 2 && decimals[length-1] == '0' {
		length--
	}
	return append(b, decimals[:length]...)
}
