package aiperf

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Metric is one line of a summary.
type Metric struct {
	Def
	Stats Stats
}

// single reports whether the metric has one value and no statistics.
func (m *Metric) single() bool { return len(m.Stats) == 1 }

// ErrorCount is one kind of failure and its number of occurrences.
type ErrorCount struct {
	Failure `json:"error_details"`
	Count   int `json:"count"`
}

// Summary is the result of a phase.
type Summary struct {
	Metrics []Metric
	Errors  []ErrorCount

	// From and To are the time window in ns since the Unix epoch: from the start of the first request to the end of the
	// last, including failed requests. If requests were cut, it ends no earlier than the load. All rates are relative to
	// this window.
	From, To int64

	// Requests = Succeeded + Failed. Cancelled is the part of Failed that the client cancelled on purpose. Cut counts
	// the requests that the end of the load cut, which are in no other number.
	Requests, Succeeded, Failed, Cancelled, Cut int

	// Asked counts successful requests with a requested output length. Short counts those whose output is
	// shorter by more than min(5 %, 50 tokens). Compared counts successful requests with both the client's
	// and the server's token counts. Mismatched counts those whose counts differ by more than 10 %.
	Asked, Short, Compared, Mismatched int

	// Items and Images are the totals of successful requests.
	Items, Images int
}

// Get returns the metric with a tag, or false if there is none.
func (s *Summary) Get(tag string) (Metric, bool) {
	i := slices.IndexFunc(s.Metrics, func(m Metric) bool { return m.Tag == tag })
	if i < 0 {
		return Metric{}, false
	}
	return s.Metrics[i], true
}

// A list is a growing list. It is kept in blocks, because a load copies it several times otherwise.
type list[T any] struct {
	full [][]T
	last []T
	n    int
}

// maxBlock limits the length of a block.
const maxBlock = 1 << 13

func (l *list[T]) add(v T) {
	if len(l.last) == cap(l.last) {
		if l.last != nil {
			l.full = append(l.full, l.last)
		}
		l.last = make([]T, 0, min(max(64, 2*cap(l.last)), maxBlock))
	}
	l.last = append(l.last, v)
	l.n++
}

// all returns the list in one block, which the caller may sort.
func (l *list[T]) all() []T {
	if l.full != nil {
		l.full, l.last = nil, slices.Concat(append(l.full, l.last)...)
	}
	return l.last
}

// A column stores the values of one metric. While all values are equal, only one is stored, because many
// metrics are constant.
type column struct {
	same   float64
	n      int
	varied bool
	values list[float64] // if they are varied
}

func (c *column) add(v float64) {
	switch {
	case c.n == 0:
		c.same = v
	case !c.varied && v != c.same:
		c.varied = true
		for range c.n {
			c.values.add(c.same)
		}
	}

	if c.varied {
		c.values.add(v)
	}

	c.n++
}

// all returns the values, which the caller may sort.
func (c *column) all() []float64 {
	if !c.varied {
		return slices.Repeat([]float64{c.same}, c.n)
	}
	return c.values.all()
}

// sum returns the sum, or NaN without values.
func (c *column) sum() float64 {
	if c.n == 0 {
		return math.NaN()
	}

	if !c.varied {
		return c.same * float64(c.n)
	}

	return floats.Sum(c.values.all())
}

// stats returns the statistics and sorts the values. It returns nil without values.
func (c *column) stats() Stats {
	if c.varied || c.n == 0 {
		return Describe(c.values.all())
	}

	n := float64(c.n)
	s := Stats{"avg": c.same, "min": c.same, "max": c.same, "std": 0, "sum": c.same * n, "count": n}
	for _, p := range percentiles {
		s[p.name] = c.same
	}
	return s
}

// Collector aggregates records. It is not safe for concurrent use.
type Collector struct {
	Streaming bool
	SLO       SLO

	columns [nPerRequest]column
	chunks  list[float64]
	w       *sweeps
	full    bool // quantities over time are not kept: they are too many, or those of the phase
	errors  map[Failure]int
	s       Summary
	v       Values

	mismatched int // outputs that are shorter or longer than requested by more than min(5 %, 50 tokens)
}

// maxErrorKinds limits the number of distinct failures.
const maxErrorKinds = 1000

// Add processes a record without keeping it and returns its values, which are valid until the next call.
func (c *Collector) Add(r *Record) *Values {
	r.Per(&c.v, c.Streaming, c.SLO)
	s := &c.s
	if s.From == 0 || r.Start < s.From {
		s.From = r.Start
	}

	if c.w == nil && !c.full {
		c.w = &sweeps{}
	}

	if c.w != nil && !c.w.add(r, c.Streaming) {
		c.w, c.full = nil, true
	}

	if r.Cut {
		// Waiting for a request that is not counted is no part of the window.
		s.To = max(s.To, min(r.Finish, cmp.Or(r.Ended, r.Finish)))
		s.Cut++
		for i := range c.v {
			c.v[i] = math.NaN()
		}
		return &c.v
	}

	s.To = max(s.To, r.Finish)
	s.Requests++
	for i, x := range c.v {
		if !math.IsNaN(x) {
			c.columns[i].add(x)
		}
	}

	if r.Err != nil {
		s.Failed++
		if r.Cancelled {
			s.Cancelled++
		}
		f := *r.Err
		if c.errors == nil {
			c.errors = map[Failure]int{}
		}
		if _, known := c.errors[f]; !known && len(c.errors) >= maxErrorKinds {
			f = Failure{Code: f.Code, Type: f.Type, Message: "further messages"}
		}
		c.errors[f]++
		return &c.v
	}

	s.Succeeded++
	s.Items += r.Items
	s.Images += r.Images
	if !math.IsNaN(c.v[OSLMismatch]) {
		s.Asked++
		lacking, allowed := float64(r.Asked-r.OSL()), min(0.05*float64(r.Asked), 50)
		if math.Abs(lacking) > allowed {
			c.mismatched++
		}
		if lacking > allowed {
			s.Short++
		}
	}

	if a, b := c.v[UsageCompletionDiff], c.v[UsagePromptDiff]; !math.IsNaN(a) || !math.IsNaN(b) {
		s.Compared++
		if a > 10 || b > 10 {
			s.Mismatched++
		}
	}

	if c.Streaming {
		for i := 1; i < len(r.Times); i++ {
			c.chunks.add(float64(r.Times[i]-r.Times[i-1]) / 1e6)
		}
	}

	return &c.v
}

// Within gives c the window of a collector that has all records of c and others.
func (c *Collector) Within(all *Collector) { c.s.From, c.s.To = all.s.From, all.s.To }

// Summary computes the summary of the records so far.
func (c *Collector) Summary() *Summary {
	s := c.s
	put := func(d Def, stats Stats) {
		if stats != nil {
			s.Metrics = append(s.Metrics, Metric{d, stats})
		}
	}

	scalar := func(tag string, v float64) { // NaN and infinite values are unknown
		if finite(v) {
			put(overallDef(tag), Stats{"avg": v})
		}
	}

	for i, d := range perRequest {
		if i != Good {
			put(d, c.columns[i].stats())
		}
	}

	put(InterChunk, Describe(c.chunks.all()))
	sum := func(i int) float64 { return c.columns[i].sum() }
	tokens := func(i int) float64 { // of all successful requests, or NaN if the length of one is unknown
		if c.columns[i].n < s.Succeeded {
			return math.NaN()
		}
		return sum(i)
	}
	seconds := float64(s.To-s.From) / 1e9
	n := float64(s.Succeeded)
	scalar("request_count", n)
	if s.Failed > 0 {
		scalar("error_request_count", float64(s.Failed))
		scalar("total_error_isl", sum(ErrorISL))
	}

	scalar("completed_request_count", float64(s.Requests))
	scalar("request_error_rate", 100*float64(s.Failed)/float64(s.Requests))
	if seconds > 0 {
		scalar("benchmark_duration", seconds)
	}

	scalar("request_throughput", n/seconds)
	scalar("output_token_throughput", tokens(OutputLength)/seconds)
	scalar("input_token_throughput", tokens(InputLength)/seconds)
	scalar("total_token_throughput", (tokens(InputLength)+tokens(OutputLength))/seconds)
	scalar("total_isl", tokens(InputLength))
	scalar("total_osl", tokens(OutputLength))
	for i, n := range []int{s.Items, s.Images} {
		if name := [2]string{"item", "image"}[i]; n > 0 {
			scalar("total_"+name+"s", float64(n))
			scalar(name+"_throughput", float64(n)/seconds)
		}
	}

	scalar("total_output_tokens", tokens(OutputTokens))
	if c.columns[OutputTokens].n == s.Succeeded { // else the reasoning of some is unknown
		scalar("total_reasoning_tokens", sum(ReasoningTokens))
	}

	scalar("total_usage_prompt_tokens", sum(UsagePrompt))
	scalar("total_usage_completion_tokens", sum(UsageCompletion))
	scalar("total_usage_total_tokens", sum(UsageTotal))
	if s.Asked > 0 {
		scalar("osl_mismatch_count", float64(c.mismatched))
	}

	if s.Compared > 0 {
		scalar("usage_discrepancy_count", float64(s.Mismatched))
	}

	if c.SLO != nil {
		good := float64(c.columns[Good].n)
		scalar("good_request_count", good)
		scalar("good_request_fraction", good/float64(s.Requests))
		scalar("goodput", good/seconds)
	}

	if s.Failed > 0 {
		c.adjusted(&s)
	}

	if c.w != nil {
		s.Metrics = append(s.Metrics, c.w.metrics(s.From, s.To, c.Streaming)...)
	}

	s.Errors = []ErrorCount{} // never null in files
	for f, n := range c.errors {
		s.Errors = append(s.Errors, ErrorCount{f, n})
	}

	slices.SortFunc(s.Errors, func(a, b ErrorCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Type, b.Type),
			cmp.Compare(a.Message, b.Message))
	})

	return &s
}

// adjusted appends statistics in which failed requests count as infinitely slow.
func (c *Collector) adjusted(s *Summary) {
	for _, i := range []int{RequestLatency, TTFT, ITL, DecodeDuration} {
		k := &c.columns[i]
		if k.n == 0 {
			continue
		}

		values := slices.Clone(k.all())
		for range s.Failed {
			values = append(values, math.Inf(1))
		}

		s.Metrics = append(s.Metrics, Metric{overallDef("adj_" + perRequest[i].Tag), Describe(values)})
	}
}
