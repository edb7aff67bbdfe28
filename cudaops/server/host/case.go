package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"aicplan/cudaops/load"
	"aicplan/cudaops/server"
	"aicplan/cudaops/worker"
	"aicplan/sink/base/textutil"
)

// builtin are the placeholders whose values the host provides.
var builtin = []string{"host", "port", "model", "plan_dir", "trace_dir", "work_dir", "gpus"}

// iterationWords are the columns and settings of an iteration.
var iterationWords = worker.OptionNames(new(iteration).declare())

// ask is a case, split into the parameters of the server and of the load.
type ask struct {
	worker.Case

	// server contains the parameters of the server as texts.
	server map[string]string

	// gpus is the number of GPUs of the server, or 0 if unknown.
	gpus int

	// iteration is nil if the load does not use closed batches.
	iteration *iteration
	trace     *traceBlock

	// key identifies the required server.
	key string
}

// iteration is a load of closed batches.
type iteration struct {
	BatchSize int

	// SeqLen is the length of the sequence: prompt plus response.
	SeqLen    int
	MaxTokens int
	Warmup    int
	Profile   int
}

func (it *iteration) declare() []worker.Option {
	return []worker.Option{
		{Name: "batch_size", Into: &it.BatchSize, Doc: "requests that are sent at once"},
		{Name: "seq_len", Into: &it.SeqLen, Doc: "tokens of prompt and answer together"},
		{Name: "max_tokens", Into: &it.MaxTokens, Doc: "tokens of each answer"},
		{Name: "warmup_iterations", Into: &it.Warmup, Default: 2, Doc: "batches before the others, in no result"},
		{Name: "profile_iterations", Into: &it.Profile, Default: 5, Doc: "batches that are measured"},
	}
}

// traceBlock configures the second pass of a case, which records traces.
type traceBlock struct {
	Torch, Nsys bool

	// Requests and OSL apply to that pass.
	Requests, OSL int
	Within        worker.Duration
	Required      bool
}

func (t *traceBlock) declare() []worker.Option {
	return []worker.Option{
		{Name: "torch", Into: &t.Torch, Default: true, Doc: "traces of each rank by the server's own profiler"},
		{Name: "nsys", Into: &t.Nsys, Default: false, Doc: "a report by nsys, of a server that is started for it"},
		{Name: "requests", Into: &t.Requests, Default: 4, Doc: "requests of the pass"},
		{Name: "osl", Into: &t.OSL, Default: 8, Doc: "tokens that each of them asks for"},
		{Name: "within", Into: &t.Within, Default: worker.Duration(10 * time.Minute),
			Doc: "how long the profiler may take to write its files"},
		{Name: "required", Into: &t.Required, Default: false,
			Doc: "a case without the traces of all its ranks fails; otherwise its row has trace_error"},
	}
}

// CollectBlocks returns the blocks iteration and trace of collects on runtimes of kind server.
func CollectBlocks() []worker.Option {
	return []worker.Option{
		{Name: "iteration", Block: new(iteration).declare(),
			Doc: "a load of closed batches; a column of the grid with the same name wins"},
		{Name: "trace", Block: new(traceBlock).declare(),
			Doc: "a second pass with few requests, in which the server records traces; no time of it is a result"},
	}
}

func (t *traceBlock) torch() bool { return t != nil && t.Torch }

// blocks are the blocks of the collect.
type blocks struct {
	Load      map[string]any `json:"load"`
	Iteration map[string]any `json:"iteration"`
	Trace     map[string]any `json:"trace"`
}

// split parses a case. Columns used in placeholders or in starts_by belong to the server. Columns that are
// load settings belong to the load, even if the server uses them too. Columns of an iteration select closed
// batches. It returns an error for unknown columns.
func (h *Host) split(c worker.Case) (*ask, error) {
	params := map[string]any{}
	if err := textutil.DecodeJSON(c.Params, &params); err != nil {
		return nil, fmt.Errorf("the case's parameters: %w", err)
	}

	var b blocks
	if len(h.init.Blocks) > 0 {
		if err := textutil.DecodeJSON(h.init.Blocks, &b); err != nil {
			return nil, fmt.Errorf("the collect's blocks: %w", err)
		}
	}

	a := &ask{Case: c, server: map[string]string{}}
	if b.Trace != nil {
		a.trace = new(traceBlock)
		if err := worker.Decode(a.trace.declare(), b.Trace); err != nil {
			return nil, fmt.Errorf("trace: %w", err)
		}
	}

	o := h.options
	serverNames := append(server.Names(o.texts()...), o.StartsBy...)

	for _, name := range o.StartsBy {
		if _, ok := params[name]; !ok {
			return nil, fmt.Errorf("starts_by names %q, and the case has no such column.%s", name,
				textutil.DidYouMean(name, slices.Sorted(maps.Keys(params))))
		}
	}

	counts := 1
	counted := false
	for _, name := range o.GPUsBy {
		n, ok := params[name]
		if !ok || n == nil {
			continue
		}
		k, err := strconv.Atoi(text(n))
		if err != nil || k < 1 {
			return nil, fmt.Errorf("%s is %s; a number of ranks is needed", name, text(n))
		}
		counts, counted = counts*k, true
	}

	if counted {
		a.gpus = counts
	}

	iterates := b.Iteration != nil
	toLoad := map[string]any{}
	words := map[string]any{}

	for _, name := range slices.Sorted(maps.Keys(params)) {
		v := params[name]
		known := slices.Contains(o.Labels, name) || slices.Contains(o.GPUsBy, name)
		if slices.Contains(serverNames, name) {
			a.server[name] = text(v)
			known = true
		}

		if slices.Contains(iterationWords, name) {
			iterates = iterates || name == "batch_size"
			if v != nil {
				words[name] = v
			}
			known = true
		}

		if slices.Contains(load.Names(), name) {
			toLoad[name] = v
			known = true
		}

		if !known {
			all := slices.Concat(serverNames, iterationWords, load.Names())
			return nil, fmt.Errorf(
				"the case has the column %q, which no placeholder of the command names and which is no setting of load.%s Use "+
					"{%s} in command, or put it into labels of the runtime",
				name,
				textutil.DidYouMean(name, all),
				name,
			)
		}
	}

	if iterates {
		it, err := readIteration(b.Iteration, words, b.Load, toLoad)
		if err != nil {
			return nil, err
		}
		a.iteration = it
	}

	raw, err := json.Marshal(toLoad)
	if err != nil {
		return nil, err
	}

	a.Params = raw
	return a, h.identify(a)
}

// readIteration returns the settings of an iteration and stores its load settings in toLoad.
func readIteration(block, words, loadBlock, toLoad map[string]any) (*iteration, error) {
	it := new(iteration)
	values := map[string]any{}
	maps.Copy(values, block)
	maps.Copy(values, words)
	if err := worker.Decode(it.declare(), values); err != nil {
		return nil, fmt.Errorf("iteration: %w", err)
	}

	number := func(name string) (int, bool) {
		v, ok := toLoad[name]
		if !ok || v == nil {
			if v, ok = loadBlock[name]; !ok {
				return 0, false
			}
		}
		n, err := strconv.ParseFloat(text(v), 64)
		return int(n), err == nil
	}

	if values["max_tokens"] == nil {
		it.MaxTokens, _ = number("osl")
	}

	isl, own := number("isl")
	if !own {
		isl = it.SeqLen - it.MaxTokens
	} else if it.SeqLen == 0 {
		it.SeqLen = isl + it.MaxTokens
	}

	switch {
	case it.BatchSize < 1:
		return nil, fmt.Errorf(
			"batch_size of the iteration is %d; it is the number of requests that are sent at once",
			it.BatchSize,
		)
	case it.MaxTokens < 1:
		return nil, fmt.Errorf("max_tokens of the iteration is %d; it is the length of each answer in tokens",
			it.MaxTokens)
	case isl < 1 || isl+it.MaxTokens > it.SeqLen:
		return nil, fmt.Errorf(
			"seq_len of the iteration is %d and max_tokens is %d: seq_len is the length of prompt and answer together, so "+
				"that %d tokens are left for a prompt",
			it.SeqLen,
			it.MaxTokens,
			it.SeqLen-it.MaxTokens,
		)
	case it.Profile < 1 || it.Warmup < 0:
		return nil, fmt.Errorf(
			"the iteration has %d profile_iterations and %d warmup_iterations; at least one is profiled",
			it.Profile,
			it.Warmup,
		)
	}

	maps.Copy(toLoad, map[string]any{
		"batch": it.BatchSize, "concurrency": it.BatchSize, "requests": it.BatchSize * it.Profile,
		"warmup_requests": it.BatchSize * it.Warmup,
		"isl":             isl, "osl": it.MaxTokens,
	})

	return it, nil
}

// identify sets the key of a case, a hash of everything that the server's command depends on.
func (h *Host) identify(a *ask) error {
	values := map[string]string{}
	for _, name := range builtin {
		values[name] = "{" + name + "}"
	}

	values["gpus"] = strconv.Itoa(a.gpus)
	maps.Copy(values, a.server)
	spec, err := h.spec(h.command(a.trace), values, a.trace.torch())
	if err != nil {
		return err
	}

	raw, err := json.Marshal([]any{spec.Command, spec.Dir, spec.Env, a.server, a.gpus})
	if err != nil {
		return err
	}

	sum := sha256.Sum256(raw)
	a.key = hex.EncodeToString(sum[:8])
	return nil
}

// command returns the server's command, with the profiler's arguments if traces are recorded with it.
func (h *Host) command(t *traceBlock) []string {
	out := slices.Clone(h.options.Command)
	if p := &h.options.Profiler; h.options.profiled && t.torch() {
		out = append(out, p.Args...)
	}
	return out
}

// spec returns how to start a server by a command and the runtime's folder and environment, in which values replace
// placeholders.
func (h *Host) spec(command []string, values map[string]string, profiled bool) (s server.Spec, err error) {
	if s.Command, err = server.ExpandAll(command, values); err != nil {
		return s, err
	}
	if s.Dir, err = server.Expand(h.options.Dir, values); err != nil {
		return s, err
	}
	s.Env, err = h.environment(values, profiled)
	return s, err
}

// environment returns the environment of the runtime and, if profiled, of the profiler, expanded and
// sorted. A variable whose value is one placeholder is left out if its column is null or empty.
func (h *Host) environment(values map[string]string, profiled bool) ([]string, error) {
	all := maps.Clone(h.options.env)
	if p := &h.options.Profiler; h.options.profiled && profiled {
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, p.Env)
	}

	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		v, err := server.Expand(all[name], values)
		if err != nil {
			return nil, err
		}
		if v == "" && server.Placeholder(all[name]) {
			continue
		}
		out = append(out, name+"="+v)
	}

	return out, nil
}

// text formats a parameter for a command line.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case json.Number:
		return v.String()
	}

	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}

	return strings.TrimSpace(string(raw))
}
