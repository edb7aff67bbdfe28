package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"aicplan/cudaops/worker"
)

// A host measures cases. Sequential takes them one after the other; the engine
// speaks with it through two streams, of which this example shows both sides.
// A worker of its own process calls worker.Serve instead.
func ExampleServeOn() {
	host := func(worker.Init) (worker.Host, error) {
		return &worker.Sequential{
			About: func(context.Context) (worker.Hello, error) {
				return worker.Hello{Version: "1.0", Device: "a CPU", Ops: []string{"square"}}, nil
			},
			Run: func(_ context.Context, c worker.Case) ([]worker.Row, error) {
				var params struct{ N float64 }
				if err := json.Unmarshal(c.Params, &params); err != nil {
					return nil, err
				}
				if params.N > 100 {
					return nil, fmt.Errorf("n = %v is too large", params.N)
				}
				return []worker.Row{{"latency": params.N * params.N}}, nil
			},
		}, nil
	}
	engine := strings.Join([]string{
		`{"type":"init","protocol":1,"runtime":"example","kind":"cpu","device":-1,"slot":"w0","seed":1}`,
		`{"type":"case","seq":1,"id":"a","op":"square","params":{"n":3}}`,
		`{"type":"case","seq":2,"id":"b","op":"square","params":{"n":300}}`,
		`{"type":"shutdown"}`,
	}, "\n") + "\n"
	in, toWorker := io.Pipe() // stays open: a closed stream means that the engine is gone
	go io.WriteString(toWorker, engine)
	var out bytes.Buffer
	if err := worker.ServeOn(context.Background(), in, &out, host); err != nil {
		fmt.Println(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		var m struct {
			Type    string
			Device  string
			Seq     int64
			Rows    []worker.Row
			Message string
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			fmt.Println(err)
		}
		switch m.Type {
		case worker.TypeHello:
			fmt.Println("hello from", m.Device)
		case worker.TypeResult:
			fmt.Println("case", m.Seq, "took", m.Rows[0]["latency"], "ms")
		case worker.TypeError:
			fmt.Println("case", m.Seq, "failed:", m.Message)
		}
	}
	// Output:
	// hello from a CPU
	// case 1 took 9 ms
	// case 2 failed: n = 300 is too large
}
