package aiperf

import (
	"math"

	"aicplan/cudaops/load/openai"
)

// Failure is the reason why a request failed.
type Failure struct {
	// Code is the HTTP status, 499 for requests that the client cancelled, or 0 without a status.
	Code    int    `json:"code,omitempty"`
	Type    string `json:"type"`
	Message string `json:"message"`
}

// Types of failures without an HTTP status.
const (
	TypeCancelled  = "RequestCancellationError"
	TypeTimeout    = "TimeoutError"
	TypeConnection = "ConnectionError"
	TypeProtocol   = "ProtocolError"
	TypeStream     = "IncompleteStreamError"
	TypeServer     = "ServerError"
	TypeEmpty      = "InvalidInferenceResultError"
)

// Record describes one request. Times are nanoseconds since the Unix epoch, taken from one monotonic clock.
// A time is 0 if the event did not happen.
type Record struct {
	Number                         int // of the session, from 0
	ID, Correlation, Conversation  string
	Turn                           int
	URL, Model                     string // of the server, and that the request asks for
	Items, Images                  int    // embeddings or ranked documents, and images of the prompt
	Warmup                         bool
	Credit                         int64 // when the request was due
	Free                           int64 // when the concurrency cap allowed the request
	Start, Sent, Ack, Last, Finish int64 // Ack and Last are the first and last byte, Finish is the end

	// Times are the arrival times of messages with output: the time of the read that completed the message.
	Times []int64

	// FirstOutput is the index in Times of the first message that is not reasoning, or -1 if there is none.
	FirstOutput int

	// Reasoned is true if a message has reasoning.
	Reasoned bool

	// Asked is the requested number of output tokens, or 0 if the request has no limit.
	Asked int

	// Input, Output and Reasoning are the client's token counts, or -1 if the client did not count. Output
	// excludes reasoning.
	Input, Output, Reasoning int

	// Text and ReasoningText are the texts from which Output and Reasoning are counted. They are empty without a
	// tokenizer.
	Text, ReasoningText string

	Usage     *openai.Usage
	Err       *Failure
	Cancelled bool

	// Cut is true if the end of the load cut the request. Of the metrics, only effective_concurrency has it. Ended is when
	// the load ended for new requests, or 0 if the run was cancelled.
	Cut               bool
	Ended             int64
	Connect           int64 // ns spent to open a connection for this request
	Reused            bool
	BytesIn, BytesOut int64
	Reads             int
}

// Reset clears the record for reuse.
func (r *Record) Reset() {
	*r = Record{Times: r.Times[:0], FirstOutput: -1, Input: -1, Output: -1, Reasoning: -1}
}

// OSL returns the output length in tokens including reasoning: the client's count if available, else the
// server's, else -1. A server that counts 0 tokens of an output, or of a prompt, does not count.
func (r *Record) OSL() int {
	if r.Output >= 0 {
		return r.Output + max(r.Reasoning, 0)
	}
	if r.Usage != nil && (r.Usage.Completion > 0 || len(r.Times) == 0) {
		return r.Usage.Completion
	}
	return -1
}

// ISL returns the input length in tokens: the client's count if available, else the server's, else -1.
func (r *Record) ISL() int {
	if r.Input >= 0 {
		return r.Input
	}
	if r.Usage != nil && r.Usage.Prompt > 0 {
		return r.Usage.Prompt
	}
	return -1
}

// reasoning returns the part of OSL that is reasoning, or -1 if it is unknown. A server that counts 0 tokens of
// reasoning that it sends does not count.
func (r *Record) reasoning() int {
	n := r.Reasoning
	if r.Output < 0 && r.Usage != nil {
		n = r.Usage.Reasoning
	}
	if n <= 0 && r.Reasoned {
		return -1
	}
	return max(n, 0)
}

// Lag returns by how many ns the client sent the request later than it could have.
func (r *Record) Lag() int64 { return max(0, r.Start-max(r.Credit, r.Free)) }

// Values are the metrics of one request. A value is NaN if the metric is not available.
type Values [nPerRequest]float64

// Per computes the metrics of a request into v. streaming enables the metrics that need times of single
// messages. The metric Good requires slo, which may be nil.
func (r *Record) Per(v *Values, streaming bool, slo SLO) {
	for i := range v {
		v[i] = math.NaN()
	}

	isl := r.ISL()
	if r.Err != nil {
		if isl >= 0 {
			v[ErrorISL] = float64(isl)
		}
		return
	}

	ms := func(ns int64) float64 { return float64(ns) / 1e6 }
	osl := r.OSL()
	count := func(i int, n int) {
		if n >= 0 {
			v[i] = float64(n)
		}
	}

	count(InputLength, isl)
	count(OutputLength, osl)
	end := r.Finish

	if n := len(r.Times); n > 0 {
		end = r.Times[n-1]
	}

	latency := end - r.Start
	v[RequestLatency] = ms(latency)
	if n := len(r.Times); streaming && n > 0 {
		ttft := r.Times[0] - r.Start
		v[TTFT] = ms(ttft)
		v[DecodeDuration] = ms(latency - ttft)
		if r.FirstOutput >= 0 {
			v[TTFO] = ms(r.Times[r.FirstOutput] - r.Start)
		}

		if n > 1 {
			v[TTST] = ms(r.Times[1] - r.Times[0])
		}

		if osl > 1 && n > 1 { // one message shows no time between tokens
			itl := float64(latency-ttft) / float64(osl-1)
			v[ITL] = itl / 1e6
			if itl > 0 {
				v[OutputPerUser] = 1e9 / itl
			}
		}

		if isl >= 0 && ttft > 0 {
			v[PrefillPerUser] = float64(isl) / (float64(ttft) / 1e9)
		}
	}

	if osl >= 0 && latency > 0 {
		v[E2EThroughput] = float64(osl) / (float64(latency) / 1e9)
	}

	if reasoning := r.reasoning(); osl >= 0 && reasoning >= 0 {
		v[OutputTokens] = float64(osl - reasoning)
		if reasoning > 0 {
			v[ReasoningTokens] = float64(reasoning)
		}
	}

	if r.Asked > 0 && osl >= 0 {
		v[OSLMismatch] = 100 * float64(osl-r.Asked) / float64(r.Asked)
	}

	if u := r.Usage; u != nil {
		count(UsagePrompt, u.Prompt)
		count(UsageCompletion, u.Completion)
		count(UsageTotal, u.Total)
		count(UsageCached, u.Cached)
		if u.Prompt > 0 && u.Cached >= 0 {
			v[UsageCachedPct] = 100 * float64(u.Cached) / float64(u.Prompt)
		}
		if r.Input > 0 && u.Prompt >= 0 {
			v[UsagePromptDiff] = 100 * math.Abs(float64(u.Prompt-r.Input)) / float64(r.Input)
		}
		if client := r.Output + max(r.Reasoning, 0); r.Output >= 0 && client > 0 && u.Completion >= 0 {
			v[UsageCompletionDiff] = 100 * math.Abs(float64(u.Completion-client)) / float64(client)
		}
	}

	v[CreditToStart] = ms(max(0, r.Start-r.Credit))
	v[EffectiveLatency] = ms(end - r.Credit)
	v[SendLag] = ms(r.Lag())
	v[HTTPBlocked] = ms(max(0, r.Free-r.Credit))
	v[HTTPDNS] = 0 // names are resolved before the first request
	v[HTTPConnecting] = ms(r.Connect)
	v[HTTPOverhead] = v[HTTPConnecting]
	v[HTTPReused] = 0
	if r.Reused {
		v[HTTPReused] = 1
	}

	v[HTTPSending] = ms(r.Sent - r.Start - r.Connect)
	v[HTTPWaiting] = ms(r.Ack - r.Sent)
	v[HTTPReceiving] = ms(r.Last - r.Ack)
	v[HTTPTotal] = ms(r.Last - r.Start)
	v[HTTPDuration] = ms(r.Last - r.Start - r.Connect)
	v[HTTPSent] = float64(r.BytesOut) / 1024
	v[HTTPReceived] = float64(r.BytesIn) / 1024
	v[HTTPChunksSent] = 1
	v[HTTPChunksReceived] = float64(r.Reads)
	if slo != nil && slo.Good(v) {
		v[Good] = 1
	}
}
