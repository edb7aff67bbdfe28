package cpu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
	"aicplan/sink/base/textutil"
)

// runSynthetic runs the synthetic op. It measures nothing: the latency is a function of the case's
// parameters, so that two runs of a grid give identical results. It exists to test the engine and is only
// available in runtimes with synthetic = true.
//
// Parameters with a meaning, all optional:
//
//	delay_ms  wall time of the case
//	wait_for  path of a file; the case does not end before it exists
//	fault     name of a failure, see faults
//	healthy   number of the attempt from which on a faulty case succeeds
//	scale_by  environment variable with a factor for latencies, to simulate
//	          a slower node
//
// All other parameters only identify the case. With a sweep, each point gives a row.
func runSynthetic(ctx context.Context, e *env, c worker.Case) ([]worker.Row, error) {
	p := worker.ParseParams(c)
	if p.Err != nil {
		return nil, p.Err
	}

	if ms, ok := p.Values["delay_ms"].(json.Number); ok {
		f, err := ms.Float64()
		if err != nil {
			return nil, worker.Failed(worker.ClassCollectorBug, "delay_ms: %v", err)
		}
		if err := e.clock.Sleep(ctx, time.Duration(f*float64(time.Millisecond))); err != nil {
			return nil, err
		}
	}

	if path, _ := p.Values["wait_for"].(string); path != "" {
		if err := waitFor(ctx, e.clock, path); err != nil {
			return nil, err
		}
	}

	points := []map[string]any{{}}
	if len(c.Sweep) > 0 {
		if err := textutil.DecodeJSON(c.Sweep, &points); err != nil {
			return nil, worker.Failed(worker.ClassCollectorBug, "sweep: %v", err)
		}
	}

	scale := 1.0
	if name, _ := p.Values["scale_by"].(string); name != "" && os.Getenv(name) != "" {
		f, err := strconv.ParseFloat(os.Getenv(name), 64)
		if err != nil || !(f > 0) {
			return nil, worker.Failed(worker.ClassCollectorBug, "scale_by: %s=%s is no number above 0", name, os.Getenv(name))
		}
		scale = f
	}

	var rows []worker.Row
	for _, point := range points {
		all := maps.Clone(p.Values)
		maps.Copy(all, point)
		rows = append(rows, syntheticRow(all, point, scale))
	}

	var healthy struct {
		From int64 `param:"healthy" optional:"true"`
	}
	healthy.From = math.MaxInt32
	p.Read(&healthy)
	if fault, _ := p.Values["fault"].(string); fault != "" && fault != "none" && int64(c.Attempt) < healthy.From {
		f, ok := faults[fault]
		if !ok {
			return nil, worker.Failed(worker.ClassCollectorBug, "no fault %q; there are %s", fault,
				strings.Join(slices.Sorted(maps.Keys(faults)), ", "))
		}
		return rows, f(synthetic{e, c, rows})
	}

	return rows, nil
}

// waitFor waits until a file exists. Tests use it to keep a run active until they have done something.
func waitFor(ctx context.Context, clock measure.Clock, path string) error {
	for {
		_, err := os.Stat(path)
		if err == nil {
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return worker.Failed(worker.ClassCollectorBug, "wait_for: %v", err)
		}
		if err := clock.Sleep(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// SyntheticLatency returns the latency in ms of a synthetic case with these parameters. It is between 0.001
// and 10, log-uniformly distributed. Parameter values are compared by their text.
func SyntheticLatency(params map[string]any) float64 {
	h := fnv.New64a()
	for _, k := range slices.Sorted(maps.Keys(params)) {
		fmt.Fprintf(h, "%s=%v;", k, params[k])
	}
	unit := float64(mix(h.Sum64())>>11) / (1 << 53)
	// Rounding keeps the text short and identical on all machines.
	return math.Round(math.Pow(10, 4*unit-3)*1e6) / 1e6
}

// mix spreads the low entropy of short keys over all bits.
func mix(x uint64) uint64 {
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	x ^= x >> 33
	return x
}

func syntheticRow(all, point map[string]any, scale float64) worker.Row {
	ms := SyntheticLatency(all) * scale
	row := worker.Row{
		"latency": ms, "samples": 1, "p10": ms, "p90": ms,
		"used_cuda_graph": false, "kernel_source": "synthetic",
	}

	if source, ok := all["kernel_source"]; ok {
		row["kernel_source"] = source // the case selects its kernel
	}

	maps.Copy(row, point)
	return row
}

// synthetic is a case with a fault, with the rows that it would have without.
type synthetic struct {
	env  *env
	c    worker.Case
	rows []worker.Row
}

// faults are the failures of synthetic cases by name. They may change the rows.
var faults = map[string]func(s synthetic) error{
	"error": func(synthetic) error { return worker.Failed("", "synthetic: the case raised an error") },
	"unsupported": func(synthetic) error {
		return worker.Failed(worker.ClassUnsupportedConfig, "synthetic: no kernel for this configuration")
	},
	"transient": func(synthetic) error { return worker.Failed(worker.ClassTransient, "synthetic: try again") },
	"oom": func(synthetic) error {
		return &worker.Failure{Exception: "OutOfMemoryError", Message: "CUDA out of memory (synthetic)"}
	},
	"fatal": func(synthetic) error {
		return &worker.Failure{Message: "synthetic: an illegal memory access was encountered", Fatal: true}
	},
	"panic":  func(synthetic) error { panic("synthetic panic") },
	"hang":   func(synthetic) error { select {} },
	"exit0":  func(synthetic) error { os.Exit(0); return nil },
	"exit10": func(synthetic) error { os.Exit(10); return nil },
	"segfault": func(synthetic) error {
		// The Go runtime would catch the signal and exit with a status. A shell in the same process does
		// not.
		return syscall.Exec("/bin/sh", []string{"sh", "-c", "kill -SEGV $$"}, os.Environ())
	},
	"killed": func(synthetic) error {
		if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
			return err
		}
		select {}
	},
	"nan":     func(s synthetic) error { s.rows[0]["latency"] = math.NaN(); return nil },
	"columns": func(s synthetic) error { delete(s.rows[0], "latency"); return nil },
	"print": func(synthetic) error {
		line := append(bytes.Repeat([]byte("x"), 1<<20-1), '\n')
		for range 100 {
			if _, err := os.Stdout.Write(line); err != nil {
				return err
			}
		}
		return nil
	},
	"fork": func(synthetic) error {
		// Start one child in the worker's process group and one outside of it. Both outlive the worker,
		// which exits.
		for _, attr := range []*syscall.SysProcAttr{{}, {Setsid: true}} {
			cmd := exec.Command("sleep", "3600")
			cmd.SysProcAttr = attr
			if err := cmd.Start(); err != nil {
				return err
			}
		}
		os.Exit(3)
		return nil
	},
	"leak": func(s synthetic) error {
		block := make([]byte, 64<<20)
		for i := 0; i < len(block); i += 4096 {
			block[i] = 1
		}
		s.env.leaked = append(s.env.leaked, block)
		return nil
	},
	"garbage":     rawLine("Traceback (most recent call last):\n"),
	"utf8":        rawLine("{\"type\":\"log\",\"text\":\"\xff\xfe\"}\n"),
	"huge":        func(s synthetic) error { return rawLine(strings.Repeat("a", worker.MaxLine+2) + "\n")(s) },
	"unknown_seq": func(s synthetic) error { return rawLine(resultLine(s.c.Seq + 1_000_000))(s) },
	// late sends a second result of the case immediately after the first one.
	"late": func(s synthetic) error { return rawLine(resultLine(s.c.Seq) + resultLine(s.c.Seq))(s) },
	"half": func(synthetic) error {
		if err := writeRaw([]byte(`{"type":"result","seq":`)); err != nil {
			return err
		}
		os.Exit(1)
		return nil
	},
}

func resultLine(seq int64) string {
	return fmt.Sprintf(`{"type":"result","seq":%d,"rows":[{"latency":1}],"seconds":1}`+"\n", seq)
}

// rawLine returns a fault that writes raw bytes to the protocol's pipe and then waits to be killed.
func rawLine(line string) func(synthetic) error {
	return func(synthetic) error {
		if err := writeRaw([]byte(line)); err != nil {
			return err
		}
		select {}
	}
}

// writeRaw writes to the engine's pipe, bypassing Serve.
func writeRaw(b []byte) error {
	fd, err := strconv.Atoi(os.Getenv(worker.EnvFDOut))
	if err != nil {
		return fmt.Errorf("%s: %w", worker.EnvFDOut, err)
	}

	for len(b) > 0 {
		n, err := syscall.Write(fd, b)
		if err != nil {
			return err
		}
		b = b[n:]
	}

	return nil
}
