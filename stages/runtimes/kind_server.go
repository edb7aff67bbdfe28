package runtimes

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/server"
	"aicplan/cudaops/server/host"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// serverKind returns the kind that starts a model server for each case and puts load on it.
func serverKind() Kind {
	return Kind{
		RuntimeKind: stage.RuntimeKind{
			Name:       "server",
			Summary:    "starts the model server that a case needs, puts load on it and has it record traces",
			Stability:  stage.Experimental,
			Attributes: []string{"devices", "package", "python", "requires"},
			Table:      "serving_perf",
			Options:    serverOptions(),
			Blocks:     serverBlocks(),
			Collect: []stage.Block{
				{Name: "load", Doc: "what every load point asks; a column of the grid with the same name wins",
					Options: loadOptions()},
				{Name: "iteration", Doc: "a load of closed batches; a column of the grid with the same name wins",
					Options: []stage.Option{
						{Name: "batch_size", Type: cty.Number, Doc: "requests that are sent at once"},
						{Name: "seq_len", Type: cty.Number, Doc: "tokens of prompt and answer together"},
						{Name: "max_tokens", Type: cty.Number, Doc: "tokens of each answer"},
						{Name: "warmup_iterations", Type: cty.Number, Default: "2", Doc: "batches before the others, in no result"},
						{Name: "profile_iterations", Type: cty.Number, Default: "5", Doc: "batches that are measured"},
					}},
				{Name: "trace", Doc: "a second pass with few requests, in which the server records traces; no time of it is a result",
					Options: []stage.Option{
						{Name: "torch", Type: cty.Bool, Default: "true", Doc: "traces of each rank by the server's own profiler"},
						{Name: "nsys", Type: cty.Bool, Default: "false", Doc: "a report by nsys, of a server that is started for it"},
						{Name: "requests", Type: cty.Number, Default: "4", Doc: "requests of the pass"},
						{Name: "osl", Type: cty.Number, Default: "8", Doc: "tokens that each of them asks for"},
						{Name: "within", Type: cty.String, Check: stage.Time, Default: `"10m"`,
							Doc: "how long the profiler may take to write its files"},
						{Name: "required", Type: cty.Bool, Default: "false",
							Doc: "a case without the traces of all its ranks fails; otherwise its row says trace_error"},
						{Name: "rules", Type: cty.String, Doc: "a file of rules for collectives, as aicplan trace -rules takes"},
					}},
			},
		},
		Slots: serverSlots,
		Host:  func(init worker.Init) (worker.Host, error) { return host.New(init, nil), nil },
		WorkerOptions: func(rt *stage.Runtime, at Place, options map[string]any) map[string]any {
			options["plan_dir"] = declaredIn(rt, at)
			for name, v := range map[string]string{"package": rt.Package, "python": rt.Python, "requires": rt.Requires} {
				if v != "" {
					options[name] = v
				}
			}
			return options
		},
		Look:           lookServer,
		Tools:          serverMistakes,
		PackageVersion: pythonPackage,
		Interpreter: func(ctx context.Context, p *Pools, rt *stage.Runtime) string {
			if rt.Package == "" {
				return "" // the server's version is unknown then
			}
			return pythonVersion(ctx, p, rt)
		},
		OnGPUs:        always,
		FirstDeadline: 24 * time.Hour, // a start and a load define their own limits
		Together:      serverColumns,
		Released:      true,
		Grace:         serverGrace,
	}
}

func serverOptions() []stage.Option {
	own := []stage.Option{
		{Name: "command", Type: cty.List(cty.String), Required: true,
			Doc: "the program and its arguments that start the server; {NAME} is a column of the case, or host, port, model, gpus, trace_dir, work_dir, plan_dir"},
		{Name: "starts_by", Type: cty.List(cty.String),
			Doc: "further columns whose change needs another server; those in command, dir and env do by themselves"},
		{Name: "dir", Type: cty.String, Doc: "the server's working folder, relative to the plan"},
		{Name: "host", Type: cty.String, Default: `"127.0.0.1"`, Beside: true, Doc: "where the server listens"},
		{Name: "port", Type: cty.Number, Default: "0", Beside: true,
			Doc: "the port that it listens on; 0 takes a free one for each start"},
		{Name: "gpus_by", Type: cty.List(cty.String),
			Default: "tensor_parallel_size, pipeline_parallel_size, data_parallel_size",
			Doc:     "columns whose product is the number of GPUs"},
		{Name: "gpus_within", Type: cty.String, Check: stage.Time, Default: `"60s"`, Beside: true,
			Doc: "how long the memory of the GPUs may take to come free before a start"},
		{Name: "answers_within", Type: cty.String, Check: stage.Time, Default: `"10m"`, Beside: true,
			Doc: "how long a server that has requests may send nothing before the case fails and the server is ended; without it, 10m where answers are streamed"},
	}

	for _, o := range endpointOptions() {
		if o.Name != "url" {
			own = append(own, o)
		}
	}

	return own
}

func serverBlocks() []stage.Block {
	return []stage.Block{
		{Name: "ready", Beside: true, Doc: "when the server may be asked", Options: []stage.Option{
			{Name: "path", Type: cty.String, Default: `"/health"`,
				Doc: "the page that answers 200; empty waits for the port alone"},
			{Name: "completion", Type: cty.Bool, Default: "true", Doc: "a real completion must succeed, too"},
			{Name: "within", Type: cty.String, Check: stage.Time, Default: `"15m"`, Doc: "how long that may take"},
		}},
		{Name: "stop", Beside: true, Doc: "how the server ends", Options: []stage.Option{
			{Name: "signal", Type: cty.String, Default: `"SIGTERM"`, Doc: "what its process group is sent"},
			{Name: "within", Type: cty.String, Check: stage.Time, Default: `"20s"`,
				Doc: "how long it may take before it is killed"},
		}},
		{Name: "profiler", Doc: "how the server records traces of itself", Options: []stage.Option{
			{Name: "args", Type: cty.List(cty.String), Doc: "arguments that the command gets where a collect has a trace block"},
			{Name: "env", Type: cty.Map(cty.String), Doc: "environment variables that the server gets then"},
			{Name: "start", Type: cty.String, Default: `"/start_profile"`, Doc: "the page that starts the profiler"},
			{Name: "stop", Type: cty.String, Default: `"/stop_profile"`, Doc: "the page that stops it"},
			{Name: "start_body", Type: cty.DynamicPseudoType, Doc: "the object that is posted to start"},
			{Name: "stop_body", Type: cty.DynamicPseudoType, Doc: "the object that is posted to stop"},
			{Name: "nsys", Type: cty.List(cty.String),
				Default: "nsys profile of CUDA and NVTX, with nsys_args or nsys_body between cudaProfilerStart and Stop",
				Doc:     "what stands before the command of a server that nsys watches"},
			{Name: "nsys_args", Type: cty.List(cty.String), Doc: "arguments that its command gets"},
			{Name: "nsys_body", Type: cty.DynamicPseudoType,
				Doc: "the object that is posted to start there; with it or nsys_args, start and stop bound what nsys records"},
		}},
	}
}

// serverSlots returns one worker that has all GPUs of the runtime.
func serverSlots(spec worker.Spec, rt *stage.Runtime, at Place, list func() ([]Device, error)) ([]worker.Slot, error) {
	found, err := list()
	if err != nil {
		return nil, err
	}

	gpus := []any{}
	if len(found) > 0 || len(rt.Devices) > 0 && len(rt.Launcher) == 0 {
		devices, err := chosen(rt, list)
		if err != nil {
			return nil, err
		}
		for _, d := range devices {
			gpus = append(gpus, map[string]any{"index": d.Index, "uuid": d.UUID, "name": d.Name})
		}
	}

	spec.Init.Options["gpus"] = gpus
	return spread(spec, rt, []Device{{Index: -1}}), nil
}

// serverTexts returns the texts that may contain placeholders. known is false if some values are not
// known yet.
func serverTexts(rt *stage.Runtime) (texts []string, known bool) {
	known = true
	collect := func(v cty.Value) {
		if v == cty.NilVal {
			return
		}

		if !v.IsWhollyKnown() {
			known = false
			return
		}

		_ = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
			if v.Type() == cty.String && !v.IsNull() {
				texts = append(texts, v.AsString())
			}
			return true, nil
		})
	}

	for _, name := range []string{"command", "dir", "profiler"} {
		collect(rt.Options[name])
	}

	for _, v := range rt.Env {
		texts = append(texts, v)
	}

	return texts, known
}

// serverMistakes returns problems that a run would detect late: a server that does not get its port, and
// a missing nsys.
func serverMistakes(rt *stage.Runtime, blocks map[string]cty.Value) string {
	if texts, known := serverTexts(rt); known && rt.Options["port"] == cty.NilVal && !host.TakesPort(texts) {
		return host.NoPort
	}
	return missingNsys(rt, blocks)
}

// serverColumns returns the columns whose change requires another server.
func serverColumns(rt *stage.Runtime, columns []string) []string {
	texts, _ := serverTexts(rt)
	names := server.Names(texts...)
	if v := rt.Options["starts_by"]; v != cty.NilVal && v.IsWhollyKnown() && !v.IsNull() {
		for it := v.ElementIterator(); it.Next(); {
			_, e := it.Element()
			names = append(names, e.AsString())
		}
	}

	var out []string
	for _, c := range columns {
		if slices.Contains(names, c) {
			out = append(out, c)
		}
	}

	return out
}

// serverGrace returns the time for the server to stop, plus a margin for its remaining processes.
func serverGrace(rt *stage.Runtime) time.Duration {
	within, err := time.ParseDuration(host.DefaultStop)
	if err != nil {
		panic("runtimes: " + err.Error()) // DefaultStop is a constant
	}

	if v := rt.Options["stop"]; v != cty.NilVal && v.Type().IsObjectType() && v.Type().HasAttribute("within") {
		if w := v.GetAttr("within"); w.IsKnown() && !w.IsNull() {
			if d, err := time.ParseDuration(w.AsString()); err == nil {
				within = d
			}
		}
	}

	return within + 15*time.Second
}

// lookServer checks that the server's program and package are on this machine.
func lookServer(ctx context.Context, p *Pools, rt *stage.Runtime) (string, error) {
	command := rt.Options["command"]
	if command == cty.NilVal || !command.IsWhollyKnown() || command.LengthInt() == 0 {
		return "", &Missing{What: rt.Address + " has no command", Fix: "give command the program that starts the server"}
	}

	program := command.Index(cty.NumberIntVal(0)).AsString()
	if len(server.Names(program)) > 0 {
		return "its program depends on the case", nil
	}

	path, err := exec.LookPath(program)
	if err != nil {
		return "", &Missing{What: fmt.Sprintf("the server's program %s is not on this machine", program),
			Fix: "install it, or give command its path"}
	}

	if rt.Package == "" {
		return path + " is there; the runtime names no package", nil
	}

	text, err := lookPython(ctx, p, rt)
	if err != nil {
		return "", err
	}

	return strings.TrimSuffix(text, ".") + ", started by " + path, nil
}
