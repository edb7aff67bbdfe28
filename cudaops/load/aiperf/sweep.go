package aiperf

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// A step is a change of a quantity at a time. n is the change of the number of contributions.
type step struct {
	at    int64
	delta float64
	n     int32
}

// A sweep records a quantity over time. Sums of rates accumulate rounding errors, so it also counts the
// contributions. Without any, the quantity is exactly 0.
type sweep struct {
	steps list[step]
	curve []span // over all time, built of the steps
}

// change adds a step.
func (s *sweep) change(at int64, delta float64, n int32) {
	s.steps.add(step{at, delta, n})
}

// add adds a contribution with a constant rate between two times.
func (s *sweep) add(from, to int64, rate float64) {
	if to <= from || rate == 0 {
		return
	}
	s.change(from, rate, 1)
	s.change(to, -rate, -1)
}

// A span is an interval with a constant value.
type span struct {
	from, to int64
	value    float64
	n        int // contributions
}

// spans returns the quantity in a window. No step may be added afterwards.
func (s *sweep) spans(from, to int64) []span {
	if s.curve == nil {
		s.build()
	}

	first := sort.Search(len(s.curve), func(i int) bool { return s.curve[i].to > from })
	end := sort.Search(len(s.curve), func(i int) bool { return s.curve[i].from >= to })
	if first >= end {
		return nil
	}

	out := slices.Clone(s.curve[first:end])
	out[0].from, out[len(out)-1].to = max(out[0].from, from), min(out[len(out)-1].to, to)
	return out
}

// build sets the curve.
func (s *sweep) build() {
	steps := s.steps.all()
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Compare(a.at, b.at) })
	s.curve = make([]span, 0, len(steps)+1)
	at, value, n := int64(math.MinInt64), 0.0, 0

	for i := 0; i < len(steps); {
		t := steps[i].at
		s.curve = append(s.curve, span{at, t, value, n})
		at = t
		for ; i < len(steps) && steps[i].at == t; i++ {
			value += steps[i].delta
			n += int(steps[i].n)
		}
		if n == 0 {
			value = 0
		}
	}

	s.curve = append(s.curve, span{at, math.MaxInt64, 0, 0})
}

// weighted returns time-weighted statistics of spans, or nil if their total length is 0.
func weighted(spans []span) Stats {
	total, sum, least, most := 0.0, 0.0, math.Inf(1), math.Inf(-1)
	for _, p := range spans {
		w := float64(p.to - p.from)
		total += w
		sum += w * p.value
		least, most = min(least, p.value), max(most, p.value)
	}

	if total == 0 {
		return nil
	}

	avg, squares := sum/total, 0.0
	for _, p := range spans {
		squares += float64(p.to-p.from) * (p.value - avg) * (p.value - avg)
	}

	s := Stats{"avg": avg, "min": least, "max": most, "std": math.Sqrt(squares / total)}
	spans = slices.SortedFunc(slices.Values(spans), func(a, b span) int { return cmp.Compare(a.value, b.value) })
	for _, p := range percentiles {
		if !slices.Contains([]string{"p50", "p90", "p95", "p99"}, p.name) {
			continue // not meaningful
		}

		upTo := 0.0
		s[p.name] = most
		for _, x := range spans {
			if upTo += float64(x.to - x.from); upTo >= p.share*total {
				s[p.name] = x.value
				break
			}
		}
	}

	return s
}

// combine applies f to two quantities over the same window.
func combine(a, b []span, f func(x, y span) span) []span {
	out := make([]span, 0, len(a)+len(b))
	for i, j := 0, 0; i < len(a) && j < len(b); {
		from, to := max(a[i].from, b[j].from), min(a[i].to, b[j].to)
		if to > from {
			s := f(a[i], b[j])
			s.from, s.to = from, to
			out = append(out, s)
		}
		if a[i].to < b[j].to {
			i++
		} else {
			j++
		}
	}

	return out
}

// ratio divides one quantity by another. If the divisor is 0, the result is 0.
func ratio(a, b []span) []span {
	return combine(a, b, func(x, y span) span {
		if y.value == 0 {
			return span{n: x.n}
		}
		return span{value: x.value / y.value, n: x.n}
	})
}

// active returns the spans with at least one contribution.
func active(spans []span) []span {
	return slices.DeleteFunc(slices.Clone(spans), func(p span) bool { return p.n == 0 })
}

// sweeps are the quantities over time of the requests in a window. Failed requests are part of all only.
type sweeps struct {
	all, prefill, decode, prefillRate, decodeRate, tokens sweep

	uncounted bool // the tokens of a request are unknown
}

// Memory limits for quantities over time. Above maxFineSteps, requests contribute their mean rate instead
// of one rate per message. Above maxSteps, the quantities are dropped.
const (
	maxFineSteps = 1 << 16
	maxSteps     = 1 << 17
)

// add adds one request. It returns false if the size limit is exceeded. The prompt's tokens are spread
// evenly from the start to the first token. The remaining output tokens are divided equally among the gaps
// between messages.
func (w *sweeps) add(r *Record, streaming bool) bool {
	if w.decodeRate.steps.n > maxSteps || w.all.steps.n > maxSteps {
		return false
	}

	if r.Err != nil {
		w.all.add(r.Start, r.Finish, 1)
		return true
	}

	if len(r.Times) == 0 {
		return true
	}

	w.uncounted = w.uncounted || r.ISL() < 0 || r.OSL() < 0
	isl, osl := float64(max(r.ISL(), 0)), max(r.OSL(), 0)
	last := r.Times[len(r.Times)-1]
	w.all.add(r.Start, last, 1)
	if last <= r.Start {
		return true
	}

	held := isl
	w.tokens.change(r.Start, isl, 1)
	defer func() { w.tokens.change(last, -held, -1) }()
	if !streaming {
		return true
	}

	first := r.Times[0]
	w.prefill.add(r.Start, first, 1)
	w.decode.add(first, last, 1)

	if d := float64(first-r.Start) / 1e9; d > 0 {
		w.prefillRate.add(r.Start, first, isl/d)
	}

	gaps := len(r.Times) - 1
	if gaps == 0 || osl < 2 || last <= first {
		return true
	}

	if w.decodeRate.steps.n > maxFineSteps {
		w.decodeRate.add(first, last, float64(osl-1)/(float64(last-first)/1e9))
		w.tokens.change(first+(last-first)/2, float64(osl-1), 0)
		held += float64(osl - 1)
		return true
	}

	share := float64(osl-1) / float64(gaps)
	from, have, rate := first, 0.0, 0.0
	for _, t := range r.Times[1:] {
		// Messages from the same read have no gap. Their tokens are added to the next gap.
		have += share
		if t == from {
			continue
		}

		now, n := have/(float64(t-from)/1e9), int32(0)
		if rate == 0 {
			n = 1
		}

		w.decodeRate.change(from, now-rate, n)
		if t < last {
			w.tokens.change(t, have, 0)
			held += have
		}

		from, have, rate = t, 0, now
	}

	if rate > 0 {
		w.decodeRate.change(from, -rate, -1)
	}

	return true
}

// plus adds two quantities.
func plus(a, b []span) []span {
	return combine(a, b, func(x, y span) span { return span{value: x.value + y.value, n: x.n + y.n} })
}

// metrics returns the statistics of all quantities within a window.
func (w *sweeps) metrics(from, to int64, streaming bool) []Metric {
	var out []Metric
	put := func(tag string, spans []span) {
		if s := weighted(spans); s != nil {
			out = append(out, Metric{overallDef(tag), s})
		}
	}

	all := w.all.spans(from, to)
	put("effective_concurrency", all)
	if !streaming || w.prefill.steps.n == 0 {
		return out // no request has times of messages
	}

	prefill, decode := w.prefill.spans(from, to), w.decode.spans(from, to)
	var prefillRate, decodeRate, tokens []span // without any, a quantity has no statistics
	if !w.uncounted {
		prefillRate, decodeRate = w.prefillRate.spans(from, to), w.decodeRate.spans(from, to)
		tokens = w.tokens.spans(from, to)
	}

	total := plus(prefillRate, decodeRate)
	put("effective_decode_throughput", decodeRate)
	put("effective_prefill_throughput", prefillRate)
	put("effective_decode_concurrency", decode)
	put("effective_prefill_concurrency", prefill)
	put("effective_total_throughput", total)
	put("effective_decode_throughput_per_user", ratio(decodeRate, decode))
	put("effective_prefill_throughput_per_user", ratio(prefillRate, prefill))
	put("tokens_in_flight", tokens)
	put("active_decode_throughput", active(decodeRate))
	put("active_prefill_throughput", active(prefillRate))
	put("active_decode_throughput_per_user", active(ratio(decodeRate, decode)))
	put("active_prefill_throughput_per_user", active(ratio(prefillRate, prefill)))
	put("active_total_throughput", active(total))

	return out
}
