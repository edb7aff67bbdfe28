package aiperf

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"aicplan/sink/base/textutil"
)

// Metrics of a single request. They are indices of Values.
const (
	RequestLatency = iota
	TTFT
	TTFO
	TTST
	ITL
	DecodeDuration
	OutputPerUser
	PrefillPerUser
	E2EThroughput
	InputLength
	OutputLength
	OutputTokens
	ReasoningTokens
	OSLMismatch
	UsagePrompt
	UsageCompletion
	UsageTotal
	UsageCached
	UsageCachedPct
	UsagePromptDiff
	UsageCompletionDiff
	CreditToStart
	EffectiveLatency
	SendLag
	ErrorISL
	Good
	HTTPBlocked
	HTTPDNS
	HTTPConnecting
	HTTPOverhead
	HTTPReused
	HTTPSending
	HTTPWaiting
	HTTPReceiving
	HTTPTotal
	HTTPDuration
	HTTPSent
	HTTPReceived
	HTTPChunksSent
	HTTPChunksReceived
	nPerRequest
)

// Group is the name of the console table that shows a metric, or "".
type Group string

// GroupMain is the main table.
const GroupMain Group = "Main"

// Def describes a metric.
type Def struct {
	// Tag is the metric's key in files, and Name its text in tables.
	Tag, Name, Unit string
	Group           Group

	// Column is the metric's column in rows, or "". If Spread is set, there are columns of percentiles too.
	Column string
	Spread bool

	// Integer is true if the values of single requests are whole numbers, AtLeast if larger values are better, and
	// Streamed if the metric needs the times of single messages.
	Integer, AtLeast, Streamed bool
}

// Label returns the name with its unit, as used in table headers.
func (d Def) Label() string {
	switch d.Unit {
	case "", "requests", "count":
		return d.Name
	}
	return d.Name + " (" + d.Unit + ")"
}

//go:embed metrics.csv
var metrics string

// defs are the definitions in metrics.csv, whose fields have no quotes.
var defs = func() (out []Def) {
	for line := range strings.Lines(metrics) {
		r := strings.Split(strings.TrimSpace(line), ",")
		if strings.HasPrefix(line, "#") || len(r) < 6 {
			continue // a comment
		}

		marked := func(mark string) bool { return strings.Contains(r[5], mark) }
		out = append(out, Def{Tag: r[0], Name: r[1], Unit: r[2], Group: Group(r[3]), Column: r[4],
			Integer: marked("integer"), AtLeast: marked("higher"), Spread: marked("spread"), Streamed: marked("stream")})
	}
	return out
}()

// InterChunk is the metric of the gaps between messages. It has a list of values per request.
var InterChunk = defs[nPerRequest]

// perRequest are the definitions by index of Values, and overall those of the metrics of a phase.
var perRequest, overall = defs[:nPerRequest], defs[nPerRequest+1:]

// overallDef returns the definition of a metric of a phase.
func overallDef(tag string) Def {
	return overall[slices.IndexFunc(overall, func(d Def) bool { return d.Tag == tag })]
}

// columnDefs returns the definitions of all metrics that have a column.
func columnDefs() []Def {
	return slices.DeleteFunc(slices.Clone(defs), func(d Def) bool { return d.Column == "" })
}

// spreads are the suffixes of the columns of percentiles.
var spreads = []string{"_p50", "_p90", "_p99"}

// Columns returns the names of all columns that Summary.Columns may return.
func Columns() []string {
	var out []string
	for _, d := range columnDefs() {
		out = append(out, d.Column)
		if d.Spread {
			for _, suffix := range spreads {
				out = append(out, d.Column+suffix)
			}
		}
	}
	return out
}

// AtLeast reports whether larger values of a column are better.
func AtLeast(column string) bool {
	return slices.ContainsFunc(columnDefs(), func(d Def) bool { return d.Column == column && d.AtLeast })
}

// Columns returns the values of the summary by column. Unknown values are omitted.
func (s *Summary) Columns() map[string]float64 {
	out := map[string]float64{}
	for _, d := range columnDefs() {
		m, ok := s.Get(d.Tag)
		if !ok {
			continue
		}

		out[d.Column] = m.Stats["avg"]
		if d.Spread {
			for _, suffix := range spreads {
				out[d.Column+suffix] = m.Stats[suffix[1:]]
			}
		}
	}
	return out
}

// SLO are the limits of a good request by index of Values.
type SLO map[int]float64

// sloNames are short names accepted in addition to the tags.
var sloNames = map[string]int{"ttft": TTFT, "ttst": TTST, "ttfo": TTFO, "itl": ITL, "tpot": ITL,
	"latency": RequestLatency}

// ParseSLO parses limits by metric tag or short name (such as ttft, itl, latency), in the metric's unit. It
// returns an error for unknown metrics and negative limits, and nil if there are no limits.
func ParseSLO(limits map[string]float64) (SLO, error) {
	if len(limits) == 0 {
		return nil, nil
	}

	slo := SLO{}
	for _, name := range slices.Sorted(maps.Keys(limits)) {
		i, ok := sloNames[name]
		if !ok {
			i = slices.IndexFunc(perRequest, func(d Def) bool { return d.Tag == name })
		}
		if i < 0 || i == Good || i == ErrorISL {
			short := slices.Sorted(maps.Keys(sloNames))
			return nil, fmt.Errorf("no metric %q to set a limit for.%s There are %s, and others of docs/guides/serving.md",
				name, textutil.DidYouMean(name, short), strings.Join(short, ", "))
		}
		if !(limits[name] >= 0) {
			return nil, fmt.Errorf("the limit of %s is %v; it must not be negative", name, limits[name])
		}
		slo[i] = limits[name]
	}

	return slo, nil
}

// Streamed reports whether only streams have a metric, by its tag, short name or column.
func Streamed(name string) bool {
	if i, ok := sloNames[name]; ok {
		name = perRequest[i].Tag
	}
	return slices.ContainsFunc(defs, func(d Def) bool {
		return d.Streamed &&
			(name == d.Tag || d.Column != "" && (name == d.Column || strings.HasPrefix(name, d.Column+"_p")))
	})
}

// Good reports whether a successful request meets all limits. A limit is not met if the request has no
// value for its metric.
func (s SLO) Good(v *Values) bool {
	for i, limit := range s {
		if perRequest[i].AtLeast {
			if !(v[i] >= limit) {
				return false
			}
		} else if !(v[i] <= limit) {
			return false
		}
	}
	return true
}
