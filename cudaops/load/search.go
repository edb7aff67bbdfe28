package load

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/load/workload"
	"aicplan/cudaops/worker"
	"aicplan/sink/base/textutil"
)

// Search is a search for the highest concurrency or request rate that meets limits.
type Search struct {
	// Over is the setting that is varied, from Min to Max.
	Over     string
	Min, Max float64

	// Tolerance is the relative distance between the result and the lowest value that misses a limit.
	Tolerance float64

	// SLO are the limits by column of the row, such as ttft_p99.
	SLO map[string]float64
}

// Options declares the options of the search block.
func (s *Search) Options() []worker.Option {
	return []worker.Option{
		{Name: "over", Into: &s.Over, Required: true, OneOf: []string{"concurrency", "request_rate"},
			Doc: "the setting whose highest value is searched"},
		{Name: "min", Into: &s.Min, Default: 1.0, Doc: "the lowest value, which is tried first"},
		{Name: "max", Into: &s.Max, Default: 1024.0,
			Doc: "the highest value; of concurrency, at most the number of requests or conversations"},
		{Name: "tolerance", Into: &s.Tolerance, Default: 0.05,
			Doc: "the relative distance to a value that misses a limit at which the search ends"},
		{Name: "slo", Into: &s.SLO, Required: true,
			Doc: "limits by column, such as { ttft_p99 = 200, good_fraction = 0.99 }"},
	}
}

// check returns an error if the search is invalid.
func (s *Search) check() error {
	switch {
	case !(s.Min > 0) || !(s.Max >= s.Min) || math.IsInf(s.Max, 0):
		return fmt.Errorf("search goes from %v to %v; min must be above 0 and max not below it", s.Min, s.Max)
	case s.Over == "concurrency" && (s.Min != math.Trunc(s.Min) || s.Max != math.Trunc(s.Max)):
		return fmt.Errorf("search over concurrency goes from %v to %v; both must be whole numbers", s.Min, s.Max)
	case !(s.Tolerance > 0 && s.Tolerance < 1):
		return fmt.Errorf("tolerance of search is %v; it must be between 0 and 1", s.Tolerance)
	case len(s.SLO) == 0:
		return errors.New("search has no limits; give slo at least one, such as { ttft_p99 = 200 }")
	}

	known := aiperf.Columns()
	for _, name := range slices.Sorted(maps.Keys(s.SLO)) {
		if !slices.Contains(known, name) && name != "error_rate" {
			return fmt.Errorf("slo of search has %q, which is no column.%s There are error_rate, %s", name,
				textutil.DidYouMean(name, known), strings.Join(known, ", "))
		}
	}
	return nil
}

// within returns the search with values that the load can reach. It returns an error if the load cannot show that
// a value is too high.
func (s *Search) within(load *Settings) (*Search, error) {
	out := *s
	open := load.open()
	_, waits := load.SLO["effective_latency"]
	for name := range s.SLO {
		waits = waits || strings.HasPrefix(name, "effective_latency")
	}

	if err := load.checkStreamed(s.SLO); err != nil {
		return nil, fmt.Errorf("search: %w", err)
	}

	_, good := s.SLO["good_fraction"]
	_, goodput := s.SLO["goodput"]
	switch {
	case load.given[s.Over]:
		return nil, fmt.Errorf("search varies %s, and it is set as well; remove it from load and from the grid", s.Over)

	case (good || goodput) && len(load.SLO) == 0:
		return nil, errors.New("slo of search has good_fraction or goodput, and load has no limits of single requests; " +
			"give load slo, such as { ttft = 200 }")

	case s.Over == "concurrency" && load.RequestRate > 0:
		return nil, errors.New("search over concurrency has request_rate, which decides how many requests are open; remove " +
			"request_rate, or search over it")

	case s.Over == "concurrency" && open > 0:
		if out.Max = min(s.Max, float64(open)); out.Max < s.Min {
			return nil, fmt.Errorf("search starts at concurrency %v, and the load has %d requests; give it more", s.Min, open)
		}

	case s.Over == "concurrency":

	case load.Duration == 0 && open == 0 && load.Dataset == "":
		return nil, errors.New("search over request_rate has the default of 10 requests, which end before a queue builds; " +
			"give load a duration, such as 60")

	case load.Users > 0:
		return nil, errors.New("search over request_rate has users, who wait for their responses, so a slow server lowers " +
			"the rate; remove users")

	case load.Concurrency > 0 && !waits && load.OverSaturation == 0:
		return nil, errors.New("search over request_rate has concurrency, so requests wait in the client, which only " +
			"effective_latency includes; add effective_latency_p99 to slo, or remove concurrency")
	}
	return &out, nil
}

// probe is one value that a search tried.
type probe struct {
	Value float64 `json:"value"`
	Met   bool    `json:"met"`
	// Missed are the limits that were not met in most repeats, with what was measured.
	Missed []string     `json:"missed,omitempty"`
	Rows   []worker.Row `json:"rows"`

	point *point
}

// SearchFile is the attachment with the values that a search tried.
const SearchFile = "search.json"

// run searches with measure, which measures a load point at a value. It returns the probes in order, and the best one:
// that with the highest value that meets all limits, or if there is none the first. The value of miss is the lowest
// that does not meet them, or NaN.
func (s *Search) run(measure func(value float64) (*probe, error)) (probes []*probe, best *probe, miss float64,
	err error) {
	low, high := 0.0, math.NaN()
	value := s.Min
	for {
		p, err := measure(value)
		if err != nil {
			return nil, nil, 0, err
		}

		probes = append(probes, p)
		switch {
		case p.Met && value > low:
			low = value
			best = p
		case !p.Met:
			high = value
		}

		if best == nil {
			return probes, p, high, nil // the lowest value misses a limit
		}

		if value = s.next(low, high); value == 0 {
			return probes, best, high, nil
		}
	}
}

// next returns the next value to try between one that meets the limits and one that does not, which is NaN if it is
// unknown. It returns 0 if the search is over.
func (s *Search) next(low, high float64) float64 {
	if math.IsNaN(high) {
		if low >= s.Max {
			return 0
		}
		return min(2*low, s.Max)
	}

	if high <= low*(1+s.Tolerance) {
		return 0
	}

	if s.Over == "request_rate" {
		return math.Sqrt(low * high)
	}

	if high-low <= 1 {
		return 0
	}
	return math.Floor((low + high) / 2)
}

// at returns the settings of a load point at a value.
func (s *Search) at(base Settings, value float64) Settings {
	if s.Over == "concurrency" {
		base.Concurrency = int(value)
	} else {
		base.RequestRate = value
	}
	return base
}

// judge compares the rows of a load point with the limits. A limit is met if most rows meet it. grace is that of the
// load in seconds.
func (s *Search) judge(p *probe, grace float64) {
	for _, name := range slices.Sorted(maps.Keys(s.SLO)) {
		limit, missed, seen := s.SLO[name], 0, "unknown"
		for _, row := range p.Rows {
			v, ok := row[name].(float64)
			if ok {
				seen = fmt.Sprintf("%.4g", v)
			}
			switch {
			case !ok || aiperf.AtLeast(name) && v < limit || !aiperf.AtLeast(name) && v > limit:
				missed++
			case limit <= 1e3*grace && cutAbove(name, row):
				missed++
				seen += fmt.Sprintf(" without the %v requests that had no response in %v s more", row["cut"], grace)
			}
		}

		if 2*missed >= len(p.Rows) {
			p.Missed = append(p.Missed, fmt.Sprintf("%s is %s, the limit is %v", name, seen, limit))
		}
	}

	early := 0
	for _, row := range p.Rows {
		if endedEarly(row) {
			early++
		}
	}
	if 2*early >= len(p.Rows) {
		p.Missed = append(p.Missed, "the load ended early")
	}
	p.Met = len(p.Missed) == 0
}

// cutAbove reports whether more requests were cut than are above a percentile of the latency.
func cutAbove(column string, row worker.Row) bool {
	name, _ := strings.CutPrefix(column, "effective_")
	text, ok := strings.CutPrefix(name, "latency_p")
	percent, err := strconv.Atoi(text)
	cut, _ := number(row["cut"])
	requests, _ := number(row["requests"])
	return ok && err == nil && cut > (1-float64(percent)/100)*(cut+requests)
}

// searched runs the search of a case. The row is that of the best value, with the result of the search.
func (h *Host) searched(ctx context.Context, c worker.Case, find *Search, out worker.Emitter) (*point, error) {
	base, o, err := h.prepared(c)
	if err != nil {
		return nil, err
	}

	if base.Trace+base.Dataset != "" && base.open() == 0 {
		list, err := base.readInput(workload.Config{})
		if err != nil {
			return nil, failure(worker.ClassUnsupportedConfig, err)
		}
		base.Sessions = len(list) // limits the concurrency
	}

	if find, err = find.within(&base); err != nil {
		return nil, failure(worker.ClassUnsupportedConfig, err)
	}

	n := uint64(0)
	var failed *point // keeps its files
	measure := func(value float64) (*probe, error) {
		s := find.at(base, value)
		if err := s.Settle(); err != nil {
			return nil, failure(worker.ClassUnsupportedConfig, err)
		}

		n++
		o.Salt = salt(fmt.Sprint(c.ID, n)) // prompts of other probes may be in the server's cache
		p := &probe{Value: value}
		p.point, err = h.measured(ctx, s, o)
		if h.beside.Stop.Err() != nil {
			return nil, worker.Failed(worker.ClassTransient, "the search was interrupted") // what was cut has not missed
		}

		if err != nil {
			if fe, ok := errors.AsType[*worker.Failure](err); !ok || n == 1 ||
				fe.Class == worker.ClassResourceIssue {
				failed = p.point
				return nil, err
			}
			p.Missed = []string{err.Error()}
			out.Log(levelStatus, "search: %s %.4g fails: %v", find.Over, value, err)
			return p, nil
		}

		p.Rows = p.point.rows()
		find.judge(p, s.Grace)
		verdict := "meets all limits"
		if !p.Met {
			verdict = strings.Join(p.Missed, "; ")
		}
		out.Log(levelStatus, "search: %s %.4g: %s", find.Over, value, verdict)
		return p, nil
	}

	probes, best, miss, err := find.run(measure)
	if err != nil {
		return failed, err
	}

	row := best.point.row
	row[find.Over] = best.Value
	row["search_over"], row["search_met"], row["search_probes"] = find.Over, best.Met, len(probes)
	if best.Met {
		row["search_value"] = best.Value
	}
	if !math.IsNaN(miss) {
		row["search_missed"] = miss
	}

	evidence, err := json.MarshalIndent(map[string]any{"over": find.Over, "slo": find.SLO, "probes": probes}, "", "  ")
	if err != nil {
		return nil, err
	}
	file := worker.Attachment{Name: SearchFile, MediaType: jsonType}
	return best.point, Attach(h.init, out, c.Seq, file, bytes.NewReader(evidence))
}
