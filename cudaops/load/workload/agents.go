package workload

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// traceEntry is an object of a trace file: a line of a mooncake trace, a conversation of an agentic trace, or spans of
// OpenTelemetry.
type traceEntry struct {
	traceLine

	ID        string         `json:"id"`
	BlockSize int            `json:"block_size"`
	Scope     string         `json:"hash_id_scope"`
	Requests  []agentRequest `json:"requests"`

	Resources []struct {
		Scopes []struct {
			Spans []span `json:"spans"`
		} `json:"scopeSpans"`
	} `json:"resourceSpans"`
}

// agentRequest is a request of a trace of coding agents in the format of kv-cache-tester, or a group of requests of a
// sub-agent. Times are in seconds.
type agentRequest struct {
	At       float64        `json:"t"`
	Type     string         `json:"type"`
	Input    int            `json:"in"`
	Output   int            `json:"out"`
	HashIDs  []int64        `json:"hash_ids"`
	Server   float64        `json:"api_time"`
	Think    *float64       `json:"think_time"`
	Agent    string         `json:"agent_id"`
	Requests []agentRequest `json:"requests"`
}

// span is a span in OTLP's JSON encoding.
type span struct {
	Start      json.RawMessage `json:"startTimeUnixNano"`
	Attributes []struct {
		Key   string `json:"key"`
		Value struct {
			Int json.RawMessage `json:"intValue"`
		} `json:"value"`
	} `json:"attributes"`
}

// lines returns the requests of an entry. number distinguishes conversations without an id.
func (e *traceEntry) lines(number int) ([]traceLine, error) {
	switch {
	case e.Requests != nil:
		return e.agent(cmp.Or(e.ID, fmt.Sprintf("trace_%06d", number)), number, e.Requests), nil
	case e.Resources != nil:
		return e.spans()
	case e.Chat != nil && e.Timestamp != nil:
		e.Timestamp, e.block = new(*e.Timestamp*1e3), bailianTokens
	case e.At != nil && e.Request*e.Response == 0:
		return nil, nil
	case e.At != nil:
		return []traceLine{{Timestamp: new(*e.At * 1e3), Input: &e.Request, Output: &e.Response}}, nil
	}
	return []traceLine{e.traceLine}, nil
}

// agent returns the requests of a conversation, each with its whole prompt, and those of its sub-agents as
// conversations of their own.
func (e *traceEntry) agent(id string, number int, requests []agentRequest) []traceLine {
	var out, inner []traceLine
	for i, r := range requests {
		if r.Type == "subagent" {
			inner = append(inner, e.agent(id+"::"+r.Agent, number, r.Requests)...)
			continue
		}

		l := traceLine{Session: json.RawMessage(strconv.Quote(id)), Input: &r.Input, Output: &r.Output,
			HashIDs: r.HashIDs, block: e.BlockSize, whole: true}
		if e.Scope == "local" {
			for k := range l.HashIDs {
				l.HashIDs[k] += int64(number) << 32
			}
		}

		if len(out) > 0 {
			delay := max(0, r.At-requests[i-1].At-requests[i-1].Server)
			if r.Think != nil {
				delay = *r.Think
			}
			l.Delay = new(delay * 1e3)
		}
		out = append(out, l)
	}
	return append(out, inner...)
}

// spans returns a request for each span with the token counts of OpenTelemetry's conventions for generative AI.
func (e *traceEntry) spans() ([]traceLine, error) {
	var out []traceLine
	for _, resource := range e.Resources {
		for _, scope := range resource.Scopes {
			for _, s := range scope.Spans {
				l, err := s.line()
				if err != nil {
					return nil, err
				}
				if l.Input != nil && l.Output != nil {
					out = append(out, l)
				}
			}
		}
	}
	return out, nil
}

func (s *span) line() (l traceLine, err error) {
	// OTLP writes 64-bit integers as texts, and some exporters write numbers.
	number := func(raw json.RawMessage) int64 {
		n, perr := strconv.ParseInt(strings.Trim(string(raw), `"`), 10, 64)
		if perr != nil {
			err = fmt.Errorf("a span has %.40q instead of a whole number", raw)
		}
		return n
	}

	for _, a := range s.Attributes {
		switch a.Key {
		case "gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens":
			l.Input = new(int(number(a.Value.Int)))
		case "gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens":
			l.Output = new(int(number(a.Value.Int)))
		}
	}

	if l.Input != nil {
		l.Timestamp = new(float64(number(s.Start)) / 1e6)
	}
	return l, err
}
