package runtimes

import (
	"cmp"
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/load"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// endpointKind returns the kind that puts load on a running server.
func endpointKind() *Kind {
	return &Kind{
		RuntimeKind: stage.RuntimeKind{
			Name:      "endpoint",
			Summary:   "load on an OpenAI-compatible endpoint: a case is a load point",
			Stability: stage.Experimental,
			Table:     "serving_perf",
			Columns:   load.Columns(),
			Ops:       endpointOps(),
			Options:   loadOptions(true),
			Collect:   loadBlocks(),
		},
		Host:          func(init worker.Init) (worker.Host, error) { return load.NewHost(init), nil },
		Check:         func(init worker.Init, c worker.Case) error { return load.NewHost(init).Check(c) },
		Inside:        true,           // a second process would double the memory and the time to the first request
		FirstDeadline: 24 * time.Hour, // a load point defines its own duration
		WorkerOptions: func(rt *stage.Runtime, at Place, options map[string]any) {
			options["plan_dir"] = declaredIn(rt, at.PlanDir)
		},
		Problem: loadProblem,
		Files:   loadFiles,
		Look:    lookEndpoint,
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

// loadBlocks returns the blocks of a collect that describe its load.
func loadBlocks() []stage.Block {
	return []stage.Block{
		{Name: "load", Doc: "what every load point asks; a column of the grid with the same name wins",
			Options: loadOptions(false)},
		{Name: "search", Doc: "searches the highest concurrency or rate that meets limits",
			Options: Options(new(load.Search).Options())},
	}
}

// optionTypes maps kinds of load options to types of plans.
var optionTypes = map[string]cty.Type{
	"text": cty.String, "number": cty.Number, "bool": cty.Bool, "list": cty.List(cty.String),
	"texts": cty.Map(cty.String), "numbers": cty.Map(cty.Number), "any": cty.DynamicPseudoType,
}

// loadOptions converts the options that package load declares, of the runtime block or of the load block.
func loadOptions(runtime bool) []stage.Option {
	var out []stage.Option
	for _, o := range load.PlanOptions(runtime) {
		out = append(out, stage.Option{Name: o.Name, Type: optionTypes[o.Kind()], Doc: o.Doc, Default: o.DefaultText(),
			OneOf: o.OneOf, Check: o.Check, Required: o.Required, Beside: o.Beside, Secret: o.Secret})
	}
	return out
}

// lookTimeout is the timeout of the check for a server.
const lookTimeout = 2 * time.Second

// lookEndpoint checks whether a server listens at each URL of the runtime. If connections are not allowed, as when a
// plan is only read, it reports no error.
func lookEndpoint(ctx context.Context, _ *Pools, rt *stage.Runtime) (string, error) {
	urls := textsAt(rt.Options["urls"])
	if len(urls) == 0 {
		urls = []string{cmp.Or(textAt(rt.Options["url"]), load.DefaultSettings().URL)}
	}

	text := ""
	for _, url := range urls {
		found, err := lookAt(ctx, url)
		if err != nil {
			return "", err
		}
		text = found
	}
	return text, nil
}

// lookAt checks whether a server listens at a URL.
func lookAt(ctx context.Context, url string) (string, error) {
	address, err := load.AddressOf(url)
	if err != nil {
		return "", missing("give url the server's address, such as http://localhost:8000", "%v", err)
	}

	if !mayReach(ctx) {
		return "", nil
	}

	if proxy := load.ProxyOf(url); proxy != "" {
		return "requests to " + address + " go through the proxy " + proxy, nil
	}

	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", missing("start the server, or set url", "nothing listens at %s (%v)", address, err)
	}

	_ = c.Close() // nothing was sent
	return "a server listens at " + address, nil
}

// promptFiles returns the files that the prompts of a load come from. If one of them cannot be read, it returns the
// others and an error.
func promptFiles(rt *stage.Runtime, planDir string, blocks map[string]cty.Value) ([]string, error) {
	dir := declaredIn(rt, planDir)
	path := func(name string) string { return absolute(dir, textAt(blocks["load"], name)) }
	return load.InputFiles(path("trace"), path("dataset"))
}

// loadProblem returns what is wrong with the files of the prompts, or "". It is the Problem of endpoints.
func loadProblem(rt *stage.Runtime, blocks map[string]cty.Value) string {
	if _, err := promptFiles(rt, "", blocks); err != nil {
		return err.Error()
	}
	return ""
}

// loadFiles returns the files that a load is made of: those of the prompts and the tokenizer.
func loadFiles(rt *stage.Runtime, planDir string, blocks map[string]cty.Value) []string {
	dir := declaredIn(rt, planDir)
	out, _ := promptFiles(rt, planDir, blocks) // Problem reports the error
	if path := textAt(rt.Options["tokenizer"]); path != "" {
		path = absolute(dir, path)
		if isDir(path) {
			path = filepath.Join(path, "tokenizer.json")
		}
		out = append(out, path)
	}
	return out
}

// maxProgram bounds the size of files that count as a part of a server's command. Larger ones are data, such as
// weights, and are distinguished by name.
const maxProgram = 16 << 20

// serverFiles returns the files of the load, and the files that the command of the server names: its program, unless
// it is found through PATH, and scripts below the plan's folder.
func serverFiles(rt *stage.Runtime, planDir string, blocks map[string]cty.Value) []string {
	out := loadFiles(rt, planDir, blocks)
	dir := declaredIn(rt, planDir)
	work := absolute(dir, textAt(rt.Options["dir"]))
	for i, word := range textsAt(rt.Options["command"]) {
		text := strings.ReplaceAll(word, "{plan_dir}", dir)
		if !strings.ContainsRune(text, filepath.Separator) || strings.Contains(text, "{") ||
			filepath.IsAbs(text) && i > 0 && !strings.HasPrefix(text, dir+string(filepath.Separator)) {
			continue
		}
		for _, path := range []string{absolute(work, text), text} {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Size() <= maxProgram {
				out = append(out, path)
				break
			}
		}
	}
	return out
}
