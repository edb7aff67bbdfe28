package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zclconf/go-cty/cty"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/stages/runtimes"
)

// toyKind is a kind of runtimes in one file. Adding one requires only its value and an entry in a list.
// Its latency is the option speed times the case's n.
func toyKind(instrument int) *runtimes.Kind {
	return &runtimes.Kind{
		RuntimeKind: stage.RuntimeKind{
			Name: "toy", Summary: "multiplies", Stability: stage.Experimental, Instrument: instrument,
			Options: []stage.Option{
				{Name: "speed", Type: cty.Number, Required: true, Doc: "milliseconds for each n"},
				{Name: "colour", Type: cty.String, OneOf: []string{"red", "blue"}, Beside: true, Doc: "what it looks like"},
			},
			Blocks: []stage.Block{{Name: "box", Doc: "what it comes in",
				Options: []stage.Option{{Name: "lid", Type: cty.Bool, Doc: "whether it can be closed"}}}},
			Collect: []stage.Block{{Name: "play", Doc: "what is done with it",
				Options: []stage.Option{{Name: "times", Type: cty.Number, Doc: "how often"}}}},
		},
		Host: func(init worker.Init) (worker.Host, error) {
			h := &toyHost{}
			h.Sequential = worker.Sequential{
				About: func(context.Context) (worker.Hello, error) {
					return worker.Hello{Framework: "TOY", Version: "1", Device: "table", Ops: []string{"play", "serve"}}, nil
				},
				Run: func(ctx context.Context, c worker.Case) ([]worker.Row, error) {
					var p struct{ N float64 }
					if err := json.Unmarshal(c.Params, &p); err != nil {
						return nil, err
					}
					if c.Op == "serve" {
						return h.serve(init, c.Seq, p.N)
					}
					speed, err := init.Options["speed"].(json.Number).Float64()
					return []worker.Row{{"latency": speed * p.N}}, err
				},
			}
			return h, nil
		},
		Slots: func(_ *runtimes.Pools, spec worker.Spec, _ *stage.Runtime) ([]worker.Slot, error) {
			return []worker.Slot{{Name: "w0", Device: -1, Spec: spec}}, nil
		},
	}
}

// toyHost adds attachments to its cases.
type toyHost struct {
	worker.Sequential
	out worker.Emitter
}

// Serve implements worker.Host.
func (h *toyHost) Serve(ctx context.Context, in <-chan worker.Case, out worker.Emitter) error {
	h.out = out
	return h.Sequential.Serve(ctx, in, out)
}

// serve returns what a server test would: rates and times without a latency, a small attachment and a
// file. Five cases fail with a log.
func (h *toyHost) serve(init worker.Init, seq int64, n float64) ([]worker.Row, error) {
	h.out.Attach(seq, worker.Attachment{Name: "note", MediaType: "text/plain", Data: []byte(fmt.Sprintf("n is %v\n", n))})
	f, err := worker.SpoolFile(init, "requests.jsonl")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "{\"request\": %v}\n", n); err != nil {
		return nil, err
	}
	h.out.Attach(seq, worker.Attachment{Name: "requests", MediaType: "application/jsonl", File: filepath.Base(f.Name())})
	if n == 5 {
		return nil, errors.New("five is too many")
	}
	row := worker.Row{"request_throughput": 2 * n, "throughput": 100 * n, "ttft": 10 + n, "p99_ttft": 12 + n}
	if n == 1 {
		delete(row, "ttft") // the row lacks a measured value
	}
	return []worker.Row{row}, nil
}

// TestToyKind checks that runtimes prints what a kind registers and that the language page must document
// its words.
func TestToyKind(t *testing.T) {
	t.Parallel()
	kinds := append(runtimes.Kinds(), toyKind(0))
	say := func(args ...string) string {
		var out bytes.Buffer
		if code := mainWith(kinds, args, nil, &out, &out); code != 0 {
			t.Fatalf("%v: exit code %d: %s", args, code, out.String())
		}
		return out.String()
	}
	for _, args := range [][]string{{"help", "toy"}, {"help", "--json"}} {
		for _, word := range []string{"toy", "speed", "colour", "box", "play"} {
			if !strings.Contains(say(args...), word) {
				t.Errorf("%v does not have %s", args, word)
			}
		}
	}
}
