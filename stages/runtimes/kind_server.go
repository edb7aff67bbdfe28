package runtimes

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/load"
	"aicplan/cudaops/server"
	"aicplan/cudaops/server/host"
	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
)

// serverKind returns the kind that starts a model server for each case and puts load on it.
func serverKind() *Kind {
	return &Kind{
		RuntimeKind: stage.RuntimeKind{
			Name:       "server",
			Summary:    "starts the model server that a case needs, puts load on it and has it record traces",
			Stability:  stage.Experimental,
			Attributes: []string{"devices", "package", "python", "requires"},
			Table:      "serving_perf",
			Columns:    load.Columns(),
			Options:    serverOptions(),
			Blocks:     Blocks(host.Options()),
			Collect:    append(loadBlocks(), Blocks(host.CollectBlocks())...),
		},
		Host:          func(init worker.Init) (worker.Host, error) { return host.New(init, nil), nil },
		Check:         host.Check,
		Interpreted:   true,
		UsesGPUs:      true,
		FirstDeadline: 24 * time.Hour, // a start and a load define their own limits
		OneNode:       true,
		Released:      true,

		Slots: serverSlots,
		WorkerOptions: func(rt *stage.Runtime, at Place, options map[string]any) {
			options["plan_dir"] = declaredIn(rt, at.PlanDir)
			set(options, map[string]string{"package": rt.Package, "python": rt.Python, "requires": rt.Requires})
		},
		Look:           lookServer,
		Problem:        serverProblem,
		Files:          serverFiles,
		RestartColumns: serverColumns,
		Grace:          serverGrace,
	}
}

// serverOptions returns the options of the server and, except for the url, of the endpoint.
func serverOptions() []stage.Option {
	own := Options(host.Options())
	for _, o := range loadOptions(true) {
		if !slices.Contains([]string{"url", "urls", "url_weights"}, o.Name) {
			own = append(own, o)
		}
	}
	return own
}

// set adds the values that are not empty to the options of a worker.
func set(options map[string]any, values map[string]string) {
	for name, v := range values {
		if v != "" {
			options[name] = v
		}
	}
}

// serverSlots returns one worker that has all GPUs of the runtime.
func serverSlots(p *Pools, spec worker.Spec, rt *stage.Runtime) ([]worker.Slot, error) {
	found, err := p.Devices()
	if err != nil {
		return nil, err
	}

	gpus := []Device{}
	if len(found) > 0 || len(rt.Devices) > 0 && len(rt.Launcher) == 0 {
		if gpus, err = p.chosen(rt); err != nil {
			return nil, err
		}
	}

	spec.Init.Options["gpus"] = gpus
	return spread(spec, rt.Workers, []Device{{Index: -1}}), nil
}

// serverTexts returns the texts that may contain placeholders. known is false if some values are not known yet.
func serverTexts(rt *stage.Runtime) (texts []string, known bool) {
	known = true
	for _, name := range []string{"command", "dir", "profiler"} {
		v := rt.Options[name]
		if v == cty.NilVal {
			continue
		}
		if !v.IsWhollyKnown() {
			known = false
			continue
		}
		_ = cty.Walk(v, func(_ cty.Path, v cty.Value) (bool, error) {
			texts = append(texts, textAt(v))
			return true, nil
		})
	}
	for _, v := range rt.Env {
		texts = append(texts, v)
	}
	return texts, known
}

// serverProblem returns problems that a run would detect late: a server that does not get its port, and
// a missing nsys.
func serverProblem(rt *stage.Runtime, blocks map[string]cty.Value) string {
	if texts, known := serverTexts(rt); known && rt.Options["port"] == cty.NilVal && !host.TakesPort(texts) {
		return host.NoPort
	}
	if problem := loadProblem(rt, blocks); problem != "" {
		return problem
	}
	return missingNsys(rt, blocks)
}

// serverColumns returns the columns whose change requires another server.
func serverColumns(rt *stage.Runtime, columns []string) []string {
	texts, _ := serverTexts(rt)
	names := append(server.Names(texts...), textsAt(rt.Options["starts_by"])...)
	return slices.DeleteFunc(slices.Clone(columns), func(c string) bool { return !slices.Contains(names, c) })
}

// serverGrace returns the time for the server to stop, plus a margin for its remaining processes.
func serverGrace(rt *stage.Runtime) time.Duration {
	within := host.DefaultStop
	if d, err := time.ParseDuration(textAt(rt.Options["stop"], "within")); err == nil {
		within = d
	}
	return within + 15*time.Second
}

// lookServer checks that the server's program and package are on this machine.
func lookServer(ctx context.Context, p *Pools, rt *stage.Runtime) (string, error) {
	program := append(textsAt(rt.Options["command"]), "")[0] // "" if it is not known yet
	if len(server.Names(program)) > 0 {
		return "its program depends on the case", nil
	}

	path, err := exec.LookPath(program)
	if err != nil {
		return "", missing("install it, or give command its path", "the server's program %s is not on this machine", program)
	}

	if rt.Package == "" {
		return path + " is there; the runtime names no package", nil
	}

	text, err := lookPackage(ctx, p, rt)
	if err != nil {
		return "", err
	}

	return strings.TrimSuffix(text, ".") + ", started by " + path, nil
}

// missingNsys returns a message if a trace block requests nsys and no usable nsys is found here, or "".
// Without this check, the error would appear only after the measurement.
func missingNsys(rt *stage.Runtime, blocks map[string]cty.Value) string {
	if !flagAt(blocks["trace"], "nsys") {
		return ""
	}
	program := append(textsAt(rt.Options["profiler"], "nsys"), host.DefaultNsys[0])[0]

	_, ownPath := rt.Env["PATH"]
	inDir := strings.ContainsRune(program, filepath.Separator) && !filepath.IsAbs(program)
	if ownPath || inDir || len(server.Names(program)) > 0 {
		return "" // it is searched where the server starts
	}

	path, err := exec.LookPath(program)
	if err != nil {
		return fmt.Sprintf(
			"trace asks for nsys and %s is not on this machine: cases are measured and get no report; install Nsight Systems, "+
				"or give nsys of the profiler block its path",
			program,
		)
	}

	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}

	if strings.Contains(path, "nsight-compute") {
		return fmt.Sprintf(
			"trace asks for nsys and %s is the copy inside of Nsight Compute, which records and makes no report; install "+
				"Nsight Systems, or give nsys of the profiler block its path",
			path,
		)
	}

	return ""
}
