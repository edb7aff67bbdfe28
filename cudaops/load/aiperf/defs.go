package aiperf

import (
	"cmp"
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

// Group is the console table that shows a metric.
type Group int

// Console tables.
const (
	GroupHidden Group = iota
	GroupEffective
	GroupActive
	GroupUsage
	GroupMain
)

// Def describes a metric.
type Def struct {
	// Tag is the metric's key in files, and Name its text in tables. By default, Name is Tag in title case.
	Tag, Name, Unit string
	Group           Group

	// Integer is true if the values of single requests are whole numbers. AtLeast is true if larger values are better.
	Integer, AtLeast bool

	// Column is the metric's column in rows, or "". If Spread is set, there are columns of percentiles too.
	Column string
	Spread bool
}

// Label returns the name with its unit, as used in table headers.
func (d Def) Label() string {
	switch d.Unit {
	case "", "requests", "count":
		return d.Name
	}
	return d.Name + " (" + d.Unit + ")"
}

// perRequest are the definitions by index of Values.
var perRequest = [nPerRequest]Def{
	RequestLatency: {Tag: "request_latency", Unit: "ms", Group: GroupMain,
		Column: "latency", Spread: true},
	TTFT: {Tag: "time_to_first_token", Name: "Time to First Token", Unit: "ms",
		Group: GroupMain, Column: "ttft", Spread: true},
	TTFO: {Tag: "time_to_first_output_token", Name: "Time to First Output Token",
		Unit: "ms", Group: GroupMain, Column: "ttfo"},
	TTST: {Tag: "time_to_second_token", Name: "Time to Second Token", Unit: "ms",
		Group: GroupMain, Column: "ttst", Spread: true},
	ITL: {Tag: "inter_token_latency", Unit: "ms",
		Group: GroupMain, Column: "itl", Spread: true},
	DecodeDuration: {Tag: "decode_duration", Unit: "ms", Group: GroupMain},
	OutputPerUser: {Tag: "output_token_throughput_per_user", Unit: "tokens/sec/user", Group: GroupMain,
		AtLeast: true, Column: "throughput_per_user"},
	PrefillPerUser: {Tag: "prefill_throughput_per_user", Unit: "tokens/sec/user", AtLeast: true},
	E2EThroughput: {Tag: "e2e_output_token_throughput", Name: "E2E Output Token Throughput",
		Unit: "tokens/sec/user", Group: GroupMain, AtLeast: true},
	InputLength: {Tag: "input_sequence_length", Unit: "tokens",
		Group: GroupMain, Integer: true, Column: "input_length"},
	OutputLength: {Tag: "output_sequence_length", Unit: "tokens",
		Group: GroupMain, Integer: true, Column: "output_length"},
	OutputTokens:    {Tag: "output_token_count", Unit: "tokens", Integer: true},
	ReasoningTokens: {Tag: "reasoning_token_count", Unit: "tokens", Integer: true},
	OSLMismatch:     {Tag: "osl_mismatch_diff_pct", Name: "OSL Mismatch Diff %", Unit: "%"},
	UsagePrompt: {Tag: "usage_prompt_tokens", Unit: "tokens",
		Group: GroupUsage, Integer: true},
	UsageCompletion: {Tag: "usage_completion_tokens", Unit: "tokens",
		Group: GroupUsage, Integer: true},
	UsageTotal: {Tag: "usage_total_tokens", Unit: "tokens",
		Group: GroupUsage, Integer: true},
	UsageCached: {Tag: "usage_prompt_cache_read_tokens", Unit: "tokens", Group: GroupUsage, Integer: true},
	UsageCachedPct: {Tag: "usage_prompt_cache_read_pct", Name: "Usage Prompt Cache Read %",
		Unit: "%", Group: GroupUsage},
	UsagePromptDiff:     {Tag: "usage_prompt_tokens_diff_pct", Name: "Usage Prompt Diff %", Unit: "%"},
	UsageCompletionDiff: {Tag: "usage_completion_tokens_diff_pct", Name: "Usage Completion Diff %", Unit: "%"},
	CreditToStart:       {Tag: "credit_to_start_latency", Name: "Credit-to-Start Latency", Unit: "ms"},
	EffectiveLatency: {Tag: "effective_latency", Name: "Effective Latency (CO-aware)", Unit: "ms",
		Group: GroupEffective, Column: "effective_latency", Spread: true},
	SendLag:  {Tag: "send_lag", Unit: "ms", Column: "send_lag", Spread: true},
	ErrorISL: {Tag: "error_isl", Name: "Error Input Sequence Length", Unit: "tokens", Integer: true},
	Good: {Tag: "good_request_count", Unit: "requests",
		Group: GroupMain, Integer: true},
	HTTPBlocked:    {Tag: "http_req_blocked", Name: "HTTP Blocked", Unit: "ms"},
	HTTPDNS:        {Tag: "http_req_dns_lookup", Name: "HTTP DNS Lookup", Unit: "ms"},
	HTTPConnecting: {Tag: "http_req_connecting", Name: "HTTP Connecting", Unit: "ms"},
	HTTPOverhead:   {Tag: "http_req_connection_overhead", Name: "HTTP Connection Overhead", Unit: "ms"},
	HTTPReused: {Tag: "http_req_connection_reused", Name: "HTTP Connection Reused",
		Unit: "ratio", Integer: true},
	HTTPSending:    {Tag: "http_req_sending", Name: "HTTP Sending", Unit: "ms"},
	HTTPWaiting:    {Tag: "http_req_waiting", Name: "HTTP Waiting (TTFB)", Unit: "ms"},
	HTTPReceiving:  {Tag: "http_req_receiving", Name: "HTTP Receiving", Unit: "ms"},
	HTTPTotal:      {Tag: "http_req_total", Name: "HTTP Total Time", Unit: "ms"},
	HTTPDuration:   {Tag: "http_req_duration", Name: "HTTP Duration (excl. conn)", Unit: "ms"},
	HTTPSent:       {Tag: "http_req_data_sent", Name: "HTTP Data Sent", Unit: "KB"},
	HTTPReceived:   {Tag: "http_req_data_received", Name: "HTTP Data Received", Unit: "KB"},
	HTTPChunksSent: {Tag: "http_req_chunks_sent", Name: "HTTP Chunks Sent", Unit: "count", Integer: true},
	HTTPChunksReceived: {Tag: "http_req_chunks_received", Name: "HTTP Chunks Received",
		Unit: "count", Integer: true},
}

func init() {
	for _, list := range [][]Def{perRequest[:], overall} {
		for i := range list {
			words := strings.Split(list[i].Tag, "_")
			for k, word := range words {
				words[k] = strings.ToUpper(word[:1]) + word[1:]
			}
			list[i].Name = cmp.Or(list[i].Name, strings.Join(words, " "))
		}
	}
}

// InterChunk is the metric of the gaps between messages. It has a list of values per request.
var InterChunk = Def{Tag: "inter_chunk_latency", Name: "Inter Chunk Latency", Unit: "ms", Column: "icl", Spread: true}

// overall are the definitions of the metrics of a phase.
var overall = []Def{
	{Tag: "request_count", Unit: "requests", Group: GroupMain},
	{Tag: "error_request_count", Unit: "requests", Group: GroupMain},
	{Tag: "total_error_isl", Name: "Total Error Input Sequence Length", Unit: "tokens"},
	{Tag: "completed_request_count", Name: "Completed Requests (Success + Error)", Unit: "requests",
		Group: GroupMain},
	{Tag: "request_error_rate", Unit: "%", Group: GroupMain},
	{Tag: "benchmark_duration", Unit: "sec", Column: "duration"},
	{Tag: "request_throughput", Unit: "requests/sec", Group: GroupMain,
		AtLeast: true, Column: "request_throughput"},
	{Tag: "output_token_throughput", Unit: "tokens/sec", Group: GroupMain,
		AtLeast: true, Column: "throughput"},
	{Tag: "input_token_throughput", Unit: "tokens/sec", Group: GroupMain,
		AtLeast: true, Column: "input_throughput"},
	{Tag: "total_token_throughput", Unit: "tokens/sec", AtLeast: true,
		Column: "total_throughput"},
	{Tag: "total_isl", Name: "Total Input Sequence Length", Unit: "tokens", Column: "input_tokens"},
	{Tag: "total_osl", Name: "Total Output Sequence Length", Unit: "tokens", Column: "output_tokens"},
	{Tag: "total_items", Unit: "items", Column: "items"},
	{Tag: "item_throughput", Unit: "items/sec", Group: GroupMain, AtLeast: true,
		Column: "item_throughput"},
	{Tag: "total_images", Unit: "images", Column: "images_sent"},
	{Tag: "image_throughput", Unit: "images/sec", Group: GroupMain, AtLeast: true,
		Column: "image_throughput"},
	{Tag: "total_output_tokens", Unit: "tokens"},
	{Tag: "total_reasoning_tokens", Unit: "tokens"},
	{Tag: "total_usage_prompt_tokens", Unit: "tokens", Group: GroupUsage},
	{Tag: "total_usage_completion_tokens", Unit: "tokens",
		Group: GroupUsage},
	{Tag: "total_usage_total_tokens", Unit: "tokens", Group: GroupUsage},
	{Tag: "osl_mismatch_count", Name: "OSL Mismatch Count", Unit: "requests"},
	{Tag: "usage_discrepancy_count", Unit: "requests"},
	{Tag: "good_request_count", Unit: "requests", Group: GroupMain},
	{Tag: "good_request_fraction", Name: "GoodRequestFraction", Unit: "ratio", Group: GroupMain,
		AtLeast: true, Column: "good_fraction"},
	{Tag: "goodput", Unit: "requests/sec", Group: GroupMain, AtLeast: true, Column: "goodput"},
	{Tag: "effective_concurrency", Unit: "requests", Group: GroupEffective,
		Column: "effective_concurrency"},
	{Tag: "effective_decode_throughput", Unit: "tokens/sec",
		Group: GroupEffective},
	{Tag: "effective_prefill_throughput", Unit: "tokens/sec",
		Group: GroupEffective},
	{Tag: "effective_decode_concurrency", Unit: "requests",
		Group: GroupEffective},
	{Tag: "effective_prefill_concurrency", Unit: "requests",
		Group: GroupEffective},
	{Tag: "effective_total_throughput", Unit: "tokens/sec",
		Group: GroupEffective},
	{Tag: "effective_decode_throughput_per_user", Unit: "tokens/sec/user", Group: GroupEffective},
	{Tag: "effective_prefill_throughput_per_user", Unit: "tokens/sec/user", Group: GroupEffective},
	{Tag: "tokens_in_flight", Unit: "tokens", Group: GroupEffective},
	{Tag: "active_decode_throughput", Unit: "tokens/sec", Group: GroupActive},
	{Tag: "active_prefill_throughput", Unit: "tokens/sec", Group: GroupActive},
	{Tag: "active_decode_throughput_per_user", Unit: "tokens/sec/user", Group: GroupActive},
	{Tag: "active_prefill_throughput_per_user", Unit: "tokens/sec/user", Group: GroupActive},
	{Tag: "active_total_throughput", Unit: "tokens/sec", Group: GroupActive},
}

// overallDef returns the definition of a metric of a phase.
func overallDef(tag string) Def {
	return overall[slices.IndexFunc(overall, func(d Def) bool { return d.Tag == tag })]
}

// columnDefs returns the definitions of all metrics that have a column.
func columnDefs() []Def {
	all := slices.Concat(perRequest[:], []Def{InterChunk}, overall)
	return slices.DeleteFunc(all, func(d Def) bool { return d.Column == "" })
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
		switch {
		case !ok:
		case !m.Has:
			out[d.Column] = m.Value
		default:
			out[d.Column] = m.Stats.Avg
			if d.Spread {
				for i, v := range []float64{m.Stats.P50, m.Stats.P90, m.Stats.P99} {
					out[d.Column+spreads[i]] = v
				}
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
			i = slices.IndexFunc(perRequest[:], func(d Def) bool { return d.Tag == name })
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

// streamed are the metrics that need the times of single messages, which only streams have.
var streamed = []Def{perRequest[TTFT], perRequest[TTFO], perRequest[TTST], perRequest[ITL], perRequest[DecodeDuration],
	perRequest[OutputPerUser], perRequest[PrefillPerUser], InterChunk}

// Streamed reports whether only streams have a metric, by its tag, short name or column.
func Streamed(name string) bool {
	if i, ok := sloNames[name]; ok {
		name = perRequest[i].Tag
	}
	return slices.ContainsFunc(streamed, func(d Def) bool {
		return name == d.Tag || d.Column != "" && (name == d.Column || strings.HasPrefix(name, d.Column+"_p"))
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
