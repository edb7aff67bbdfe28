package aiperf

import (
	"math"
	"strconv"

	"aicplan/cudaops/load/openai"
)

// AppendRecord appends one line of profile_export.jsonl. worker is the name of the sender. warmedUp is true
// if the run has a warm-up phase. AppendRecord does not allocate if b has enough capacity, because lines
// are written while the load runs.
func AppendRecord(b []byte, r *Record, v *Values, streaming, warmedUp bool, worker string) []byte {
	str := func(name, value string) {
		b = append(b, ',', '"')
		b = append(b, name...)
		b = append(b, `":`...)
		b = openai.AppendString(b, value)
	}

	num := func(name string, value int64) {
		b = append(b, ',', '"')
		b = append(b, name...)
		b = append(b, `":`...)
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
	str("x_request_id", r.ID)
	str("x_correlation_id", r.Correlation)
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
	str("benchmark_phase", phase)
	num("phase_index", index)
	if !r.Warmup {
		num("profiling_index", 0)
	}

	str("phase_name", phase)
	str("phase_kind", phase)
	if r.Cancelled {
		b = append(b, `,"was_cancelled":true`...)
		num("cancellation_time_ns", r.Finish)
	} else {
		b = append(b, `,"was_cancelled":false`...)
	}

	b = append(b, `,"context_overflow_skip":false,"agent_depth":0`...)
	str("root_correlation_id", r.Correlation)
	b = append(b, `},"metrics":{`...)
	first := true
	name := func(d *Def) {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(b, '"')
		b = append(b, d.Tag...)
		b = append(b, `":{"value":`...)
	}

	unit := func(d *Def) {
		b = append(b, `,"unit":"`...)
		b = append(b, d.Unit...)
		b = append(b, `"}`...)
	}

	defs := PerRequest()
	for i := range defs {
		if v == nil || math.IsNaN(v[i]) || summaryOnly(i) {
			continue
		}
		d := &defs[i]
		name(d)
		if d.Integer {
			b = strconv.AppendInt(b, int64(v[i]), 10)
		} else {
			b = appendFloat(b, v[i])
		}
		unit(d)
	}

	if streaming && r.Err == nil && len(r.Times) > 1 {
		name(&InterChunk)
		b = append(b, '[')
		for i := 1; i < len(r.Times); i++ {
			if i > 1 {
				b = append(b, ',')
			}
			b = appendFloat(b, float64(r.Times[i]-r.Times[i-1])/1e6)
		}
		b = append(b, ']')
		unit(&InterChunk)
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

// summaryOnly reports whether AIPerf writes a metric only to its summaries. Readers can compute it from the
// times in the metadata.
func summaryOnly(i int) bool { return i == CreditToStart || i == EffectiveLatency }

// appendFloat appends the shortest text of a number, with a decimal point.
func appendFloat(b []byte, v float64) []byte {
	// Most values are milliseconds of whole nanoseconds. Their shortest text is that of the nanoseconds.
	if ns := math.Round(v * 1e6); ns >= 0 && ns < 1e15 && ns/1e6 == v && (v == 0 || v >= 1e-4) {
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
	b = append(strconv.AppendUint(b, n/1e6, 10), '.')
	digits := len(b)
	for rest, unit := n%1e6, uint64(1e5); unit > 0 && (rest > 0 || len(b) == digits); unit /= 10 {
		b = append(b, byte('0'+rest/unit))
		rest %= unit
	}
	return b
}
