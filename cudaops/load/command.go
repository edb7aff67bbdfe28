package load

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// command returns the AIPerf command line for the same load. It omits settings without an AIPerf flag, and
// headers, which may contain private data.
func command(s *Settings) string {
	var b strings.Builder
	b.WriteString("aiperf profile")
	text := func(flag, value string) {
		if value != "" {
			b.WriteString(" " + flag + " '" + strings.ReplaceAll(value, "'", `'\''`) + "'")
		}
	}

	number := func(flag string, v float64) {
		if v != 0 {
			b.WriteString(" " + flag + " " + strconv.FormatFloat(v, 'g', -1, 64))
		}
	}

	text("--model", s.Model)
	text("--endpoint-type", s.EndpointType)
	text("--endpoint", s.Path)
	if s.Streaming {
		b.WriteString(" --streaming")
	}

	text("--url", s.URL)
	for _, name := range slices.Sorted(maps.Keys(s.ExtraInputs)) {
		text("--extra-inputs", fmt.Sprintf("%s:%s", name, s.ExtraInputs[name]))
	}

	if s.Trace != "" {
		text("--input-file", s.Trace)
		text("--custom-dataset-type", "mooncake_trace")
	} else {
		number("--synthetic-input-tokens-mean", s.ISL)
		number("--synthetic-input-tokens-stddev", s.ISLStdDev)
		number("--output-tokens-mean", s.OSL)
		number("--output-tokens-stddev", s.OSLStdDev)
		number("--num-dataset-entries", float64(s.Entries))
		number("--prefix-prompt-length", float64(s.PrefixLength))
		if s.PrefixLength > 0 {
			number("--prefix-prompt-pool-size", float64(max(s.PrefixPool, 1)))
		}

		number("--conversation-turn-mean", s.Turns)
		number("--conversation-turn-stddev", s.TurnsStdDev)
		number("--conversation-turn-delay-mean", 1e3*s.TurnDelay)
		number("--conversation-turn-delay-stddev", 1e3*s.TurnDelayStdDev)
		text("--dataset-sampling-strategy", s.Sampling)
	}

	number("--concurrency", float64(s.Concurrency))
	number("--concurrency-ramp-duration", s.ConcurrencyRamp)
	number("--prefill-concurrency", float64(s.PrefillConcurrency))
	if s.Users > 0 {
		number("--user-centric-rate", s.RequestRate)
		number("--num-users", float64(s.Users))
	} else {
		number("--request-rate", s.RequestRate)
	}

	number("--request-rate-ramp-duration", s.RateRamp)
	if s.RequestRate > 0 && s.Users == 0 {
		text("--arrival-pattern", s.Arrival)
	}

	number("--request-count", float64(s.Requests))
	number("--benchmark-duration", s.Duration)
	number("--conversation-num", float64(s.Sessions))
	number("--warmup-request-count", float64(s.WarmupRequests))
	number("--request-cancellation-rate", 100*s.CancelShare)
	number("--request-cancellation-delay", s.CancelDelay)
	number("--request-timeout-seconds", s.Timeout)
	if s.Tokenizer != "" {
		text("--tokenizer", s.Tokenizer)
	} else {
		b.WriteString(" --use-server-token-count")
	}

	b.WriteString(" --random-seed " + strconv.FormatUint(s.Seed, 10))
	var goals []string
	for _, name := range slices.Sorted(maps.Keys(s.SLO)) {
		goals = append(goals, name+":"+strconv.FormatFloat(s.SLO[name], 'g', -1, 64))
	}

	text("--goodput", strings.Join(goals, " "))
	return b.String()
}
