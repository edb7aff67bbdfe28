package aiperf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
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
	Tag, Name, Unit string
	Group           Group
	// Integer is true if the values of single requests are whole numbers.
	Integer bool
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
	RequestLatency: {"request_latency", "Request Latency", "ms", GroupMain, false},
	TTFT:           {"time_to_first_token", "Time to First Token", "ms", GroupMain, false},
	TTFO:           {"time_to_first_output_token", "Time to First Output Token", "ms", GroupMain, false},
	TTST:           {"time_to_second_token", "Time to Second Token", "ms", GroupMain, false},
	ITL:            {"inter_token_latency", "Inter Token Latency", "ms", GroupMain, false},
	DecodeDuration: {"decode_duration", "Decode Duration", "ms", GroupMain, false},
	OutputPerUser: {"output_token_throughput_per_user", "Output Token Throughput Per User", "tokens/sec/user",
		GroupMain, false},
	PrefillPerUser: {"prefill_throughput_per_user", "Prefill Throughput Per User", "tokens/sec/user",
		GroupHidden, false},
	E2EThroughput: {"e2e_output_token_throughput", "E2E Output Token Throughput", "tokens/sec/user",
		GroupMain, false},
	InputLength:     {"input_sequence_length", "Input Sequence Length", "tokens", GroupMain, true},
	OutputLength:    {"output_sequence_length", "Output Sequence Length", "tokens", GroupMain, true},
	OutputTokens:    {"output_token_count", "Output Token Count", "tokens", GroupHidden, true},
	ReasoningTokens: {"reasoning_token_count", "Reasoning Token Count", "tokens", GroupHidden, true},
	OSLMismatch:     {"osl_mismatch_diff_pct", "OSL Mismatch Diff %", "%", GroupHidden, false},
	UsagePrompt:     {"usage_prompt_tokens", "Usage Prompt Tokens", "tokens", GroupUsage, true},
	UsageCompletion: {"usage_completion_tokens", "Usage Completion Tokens", "tokens", GroupUsage, true},
	UsageTotal:      {"usage_total_tokens", "Usage Total Tokens", "tokens", GroupUsage, true},
	UsageCached: {"usage_prompt_cache_read_tokens", "Usage Prompt Cache Read Tokens", "tokens", GroupUsage,
		true},
	UsageCachedPct:      {"usage_prompt_cache_read_pct", "Usage Prompt Cache Read %", "%", GroupUsage, false},
	UsagePromptDiff:     {"usage_prompt_tokens_diff_pct", "Usage Prompt Diff %", "%", GroupHidden, false},
	UsageCompletionDiff: {"usage_completion_tokens_diff_pct", "Usage Completion Diff %", "%", GroupHidden, false},
	CreditToStart:       {"credit_to_start_latency", "Credit-to-Start Latency", "ms", GroupHidden, false},
	EffectiveLatency:    {"effective_latency", "Effective Latency (CO-aware)", "ms", GroupEffective, false},
	SendLag:             {"send_lag", "Send Lag", "ms", GroupHidden, false},
	ErrorISL:            {"error_isl", "Error Input Sequence Length", "tokens", GroupHidden, true},
	Good:                {"good_request_count", "Good Request Count", "requests", GroupMain, true},
	HTTPBlocked:         {"http_req_blocked", "HTTP Blocked", "ms", GroupHidden, false},
	HTTPDNS:             {"http_req_dns_lookup", "HTTP DNS Lookup", "ms", GroupHidden, false},
	HTTPConnecting:      {"http_req_connecting", "HTTP Connecting", "ms", GroupHidden, false},
	HTTPOverhead:        {"http_req_connection_overhead", "HTTP Connection Overhead", "ms", GroupHidden, false},
	HTTPReused:          {"http_req_connection_reused", "HTTP Connection Reused", "ratio", GroupHidden, true},
	HTTPSending:         {"http_req_sending", "HTTP Sending", "ms", GroupHidden, false},
	HTTPWaiting:         {"http_req_waiting", "HTTP Waiting (TTFB)", "ms", GroupHidden, false},
	HTTPReceiving:       {"http_req_receiving", "HTTP Receiving", "ms", GroupHidden, false},
	HTTPTotal:           {"http_req_total", "HTTP Total Time", "ms", GroupHidden, false},
	HTTPDuration:        {"http_req_duration", "HTTP Duration (excl. conn)", "ms", GroupHidden, false},
	HTTPSent:            {"http_req_data_sent", "HTTP Data Sent", "KB", GroupHidden, false},
	HTTPReceived:        {"http_req_data_received", "HTTP Data Received", "KB", GroupHidden, false},
	HTTPChunksSent:      {"http_req_chunks_sent", "HTTP Chunks Sent", "count", GroupHidden, true},
	HTTPChunksReceived:  {"http_req_chunks_received", "HTTP Chunks Received", "count", GroupHidden, true},
}

// PerRequest returns the metrics of single requests in the order of Values.
func PerRequest() []Def { return perRequest[:] }

// InterChunk is the metric of the gaps between messages. It has a list of values per request.
var InterChunk = Def{"inter_chunk_latency", "Inter Chunk Latency", "ms", GroupHidden, false}

// SLO are the limits of a good request by index of Values.
type SLO map[int]float64

// atLeast are the metrics for which the limit is a minimum.
var atLeast = []int{OutputPerUser, PrefillPerUser, E2EThroughput}

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
			return nil, fmt.Errorf("no metric %q to set a limit for; there are %s, and others of docs/guides/serving.md",
				name, strings.Join(slices.Sorted(maps.Keys(sloNames)), ", "))
		}
		if !(limits[name] >= 0) {
			return nil, fmt.Errorf("the limit of %s is %v; it must not be negative", name, limits[name])
		}
		slo[i] = limits[name]
	}

	return slo, nil
}

// Good reports whether a successful request meets all limits. A limit is not met if the request has no
// value for its metric.
func (s SLO) Good(v *Values) bool {
	for i, limit := range s {
		if slices.Contains(atLeast, i) {
			if !(v[i] >= limit) {
				return false
			}
		} else if !(v[i] <= limit) {
			return false
		}
	}
	return true
}
