package runtimes

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/load"
	"aicplan/cudaops/load/openai"
	"aicplan/cudaops/load/workload"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// endpointKind returns the kind that puts load on a running server.
func endpointKind() Kind {
	return Kind{
		RuntimeKind: stage.RuntimeKind{
			Name:      "endpoint",
			Summary:   "load on an OpenAI-compatible endpoint: a case is a load point",
			Stability: stage.Experimental,
			Table:     "serving_perf",
			Ops:       endpointOps(),
			Options:   endpointOptions(),
			Collect: []stage.Block{{Name: "load",
				Doc:     "what every load point asks; a column of the grid with the same name wins",
				Options: loadOptions()}},
		},
		Slots: func(spec worker.Spec, rt *stage.Runtime, at Place, _ func() ([]Device, error)) ([]worker.Slot, error) {
			return spread(spec, rt, []Device{{Index: -1}}), nil
		},
		Host:   func(init worker.Init) (worker.Host, error) { return load.NewHost(init), nil },
		Inside: true, // a second process would double the memory and the time to the first request
		WorkerOptions: func(rt *stage.Runtime, at Place, options map[string]any) map[string]any {
			options["plan_dir"] = declaredIn(rt, at)
			return options
		},
		Look:          lookEndpoint,
		FirstDeadline: 24 * time.Hour, // a load point defines its own duration
	}
}

// endpointOps returns one op for each type of endpoint.
func endpointOps() []stage.Op {
	var out []stage.Op
	for _, name := range load.Ops() {
		out = append(out, stage.Op{Name: name})
	}
	return out
}

// endpointOptions returns the options for the server's location and protocol.
func endpointOptions() []stage.Option {
	return []stage.Option{
		{Name: "url", Type: cty.String, Check: checkURL, Default: `"localhost:8000"`,
			Doc: "the server, with or without a scheme"},
		{Name: "model", Type: cty.String, Required: true, Doc: "the name that the server knows the model by"},
		{Name: "endpoint_type", Type: cty.String, OneOf: openai.Endpoints(), Default: "the grid's op",
			Doc: "what is asked for"},
		{Name: "endpoint", Type: cty.String, Doc: "the path of the endpoint where it is not the usual one"},
		{Name: "streaming", Type: cty.Bool, Default: "true", Doc: "whether answers are streamed"},
		{Name: "headers", Type: cty.Map(cty.String), Doc: "further headers; none with a secret"},
		{Name: "api_key", Type: cty.String, Secret: true, Doc: "the key, from a sensitive variable"},
		{Name: "api_key_env", Type: cty.String, Beside: true, Doc: "the environment variable that has the key"},
		{Name: "api_key_file", Type: cty.String, Beside: true, Doc: "the file that has the key"},
		{Name: "ca_file", Type: cty.String, Beside: true,
			Doc: "certificates of a private authority (PEM), trusted beside the system's"},
		{Name: "extra_inputs", Type: cty.DynamicPseudoType, Doc: "an object that is merged into every body"},
		{Name: "request_timeout", Type: cty.Number, Default: "21600", Doc: "seconds that a request may take"},
		{Name: "require_done", Type: cty.Bool, Default: "true", Doc: "whether a stream without [DONE] is an error"},
		{Name: "tokenizer", Type: cty.String,
			Doc: "the folder of the model's tokenizer.json; without it the server's counts are taken"},
		{Name: "labels", Type: cty.List(cty.String), Beside: true, Doc: "columns of the grid that only name a case"},
	}
}

// loadOptions returns the options for the content, rate and duration of the load.
func loadOptions() []stage.Option {
	return []stage.Option{
		{Name: "concurrency", Type: cty.Number, Default: "1 without a rate",
			Doc: "requests that are open at once; with a rate the most of them"},
		{Name: "prefill_concurrency", Type: cty.Number, Default: "0",
			Doc: "requests that may wait for their first token at once; 0 is no limit"},
		{Name: "concurrency_ramp", Type: cty.Number, Default: "0", Doc: "seconds in which concurrency grows to its value"},
		{Name: "request_rate", Type: cty.Number, Default: "0",
			Doc: "requests per second; 0 sends as soon as concurrency lets"},
		{Name: "request_rate_ramp", Type: cty.Number, Default: "0", Doc: "seconds in which the rate grows to its value"},
		{Name: "arrival", Type: cty.String, OneOf: workload.Patterns(), Default: `"poisson"`,
			Doc: "how requests arrive at a rate"},
		{Name: "arrival_smoothness", Type: cty.Number, Default: "1", Doc: "the shape of gamma arrivals: more is smoother"},
		{Name: "users", Type: cty.Number, Default: "0",
			Doc: "users who share request_rate, each with evenly spaced turns; 0 is for arrivals without users"},
		{Name: "requests", Type: cty.Number, Default: "the larger of 10 and twice the concurrency", Doc: "requests to send"},
		{Name: "duration", Type: cty.Number, Default: "0", Doc: "seconds after which no further request is sent"},
		{Name: "grace", Type: cty.Number, Default: "30", Doc: "seconds that open requests may take after duration"},
		{Name: "sessions", Type: cty.Number, Default: "0", Doc: "conversations to begin"},
		{Name: "batch", Type: cty.Number, Default: "0",
			Doc: "requests that are sent at once; the next as many follow when the last of them has ended"},
		{Name: "warmup_requests", Type: cty.Number, Default: "0", Doc: "requests before the others, in no result"},
		{Name: "isl", Type: cty.Number, Default: "550", Doc: "mean tokens of a prompt"},
		{Name: "isl_stddev", Type: cty.Number, Default: "0", Doc: "their standard deviation"},
		{Name: "osl", Type: cty.Number, Default: "the server's choice", Doc: "mean tokens to ask for"},
		{Name: "osl_stddev", Type: cty.Number, Default: "0", Doc: "their standard deviation"},
		{Name: "entries", Type: cty.Number, Default: "one for every request",
			Doc: "different conversations, used again when they run out"},
		{Name: "sampling", Type: cty.String, OneOf: []string{load.SamplingSequential, load.SamplingShuffle},
			Default: `"sequential"`, Doc: "the order of entries"},
		{Name: "prefix_length", Type: cty.Number, Default: "0", Doc: "tokens of a shared text that opens conversations"},
		{Name: "prefix_pool", Type: cty.Number, Default: "1", Doc: "how many such texts there are"},
		{Name: "turns", Type: cty.Number, Default: "1", Doc: "mean turns of a conversation"},
		{Name: "turns_stddev", Type: cty.Number, Default: "0", Doc: "their standard deviation"},
		{Name: "turn_delay", Type: cty.Number, Default: "0", Doc: "mean seconds between an answer and the next turn"},
		{Name: "turn_delay_stddev", Type: cty.Number, Default: "0", Doc: "their standard deviation"},
		{Name: "prompt", Type: cty.String, OneOf: []string{load.PromptText, load.PromptIDs}, Default: `"text"`,
			Doc: "what prompts are made of; token ids need completions"},
		{Name: "vocabulary", Type: cty.Number, Default: "30000", Doc: "token ids are below this"},
		{Name: "trace", Type: cty.String, Doc: "a JSONL trace in mooncake form, which replaces prompts and arrivals"},
		{Name: "trace_speed", Type: cty.Number, Default: "1", Doc: "how many times faster than recorded a trace is replayed"},
		{Name: "cancel_share", Type: cty.Number, Default: "0", Doc: "share of requests that the client gives up"},
		{Name: "cancel_delay", Type: cty.Number, Default: "0", Doc: "seconds after which it does"},
		{Name: "slo", Type: cty.Map(cty.Number), Doc: "limits by metric that good requests keep, such as { ttft = 200 }"},
		{Name: "cache_reset", Type: cty.String,
			OneOf: []string{load.ResetAuto, load.ResetRequire, load.ResetNever}, Default: `"auto"`,
			Doc: "whether the server is asked to forget its prefix cache first"},
		{Name: "token_counts", Type: cty.String, OneOf: []string{load.CountsAuto, load.CountsServer},
			Default: `"auto"`, Doc: "who counts tokens: the tokenizer or the server's usage, or the server's /tokenize after the load"},
		{Name: "request_log", Type: cty.String, OneOf: []string{load.LogRecords, load.LogNone},
			Default: `"records"`, Beside: true, Doc: "whether each request's line is kept with the row"},
		{Name: "seed", Type: cty.Number, Default: "0",
			Doc: "decides prompts, order, arrivals and cancellations, together with the case"},
	}
}

// addressOf returns the host and the port of a url.
func addressOf(url string) (string, error) {
	s := load.DefaultSettings()
	s.URL = url
	u, err := s.Target()
	if err != nil {
		return "", err
	}
	return load.Address(u)
}

func checkURL(text string) error {
	_, err := addressOf(text)
	return err
}

// lookTimeout is the timeout of the check for a server.
const lookTimeout = 2 * time.Second

// lookEndpoint checks whether a server listens at the runtime's url. If connections are not allowed, as
// when a plan is only read, it reports no error.
func lookEndpoint(ctx context.Context, _ *Pools, rt *stage.Runtime) (string, error) {
	url := load.DefaultSettings().URL
	if v, ok := rt.Options["url"]; ok && v.IsKnown() && v.Type() == cty.String {
		url = v.AsString()
	}

	address, err := addressOf(url)
	if err != nil {
		return "", &Missing{What: err.Error(), Fix: "give url the server's address, such as http://localhost:8000"}
	}

	if !mayReach(ctx) {
		return "", nil
	}

	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", &Missing{What: fmt.Sprintf("nothing listens at %s (%v)", address, err),
			Fix: "start the server, or set url"}
	}

	if err := c.Close(); err != nil {
		return "", &Missing{What: err.Error(), Fix: "start the server, or set url"}
	}

	return "a server listens at " + address, nil
}
