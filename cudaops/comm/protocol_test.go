//go:build linux

package comm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"testing"

	"aicplan/cudaops/worker"
)

// Runs the worker over its protocol. In a sweep, one case has a wrong sum and another loses a rank, and all
// other cases must get a result.
func TestSweepOverTheProtocol(t *testing.T) {
	fake, node := fakeNode(4)
	ranks := &fakeRanks{node: node}
	fake.Corrupt = func(o fakeOp, rank int) bool {
		return o.Name == AllReduce && o.Ranks == 4 && o.Bytes == 512 && rank == 3
	}
	fake.Stall = func(o fakeOp) bool {
		dies := o.Name == AllToAll && o.Ranks == 2
		if dies {
			ranks.kill(1)
		}
		return dies
	}
	toWorker, engineOut := io.Pipe()
	engineIn, fromWorker := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- worker.ServeOn(t.Context(), toWorker, fromWorker, func(init worker.Init) (worker.Host, error) {
			return &host{init: init, open: func() (*Node, error) { return node, nil }, newGroup: ranks.group}, nil
		})
		fromWorker.Close()
	}()
	enc := json.NewEncoder(engineOut)
	send := func(v any) {
		if err := enc.Encode(v); err != nil {
			t.Error(err)
		}
	}
	go func() {
		send(worker.Init{
			Type: worker.TypeInit, Protocol: worker.ProtocolVersion, Kind: "nccl", Device: -1, Measure: []byte(quick),
			Options: map[string]any{
				"devices": []int{0, 1, 2, 3}, "method": "graph",
			},
		})
		seq := int64(0)
		for _, gpus := range []int{2, 4} {
			for _, op := range []string{AllReduce, AllToAll, AllGather} {
				for _, size := range []int{256, 512} {
					seq++
					send(worker.Case{Type: worker.TypeCase, Seq: seq, ID: fmt.Sprint(seq), Op: OpNCCL,
						Params: []byte(ncclCase(op, "half", gpus, size))})
				}
			}
		}
		send(map[string]string{"type": worker.TypeShutdown})
	}()
	failed, measured := map[string]int{}, 0
	lines := bufio.NewScanner(engineIn)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m struct {
			Type      string
			Ops       []string
			Exception string
			Rows      []worker.Row
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		switch m.Type {
		case worker.TypeHello:
			if len(m.Ops) != 2+len(Collectives) {
				t.Errorf("ops %v", m.Ops)
			}
		case worker.TypeResult:
			measured++
			if !(m.Rows[0]["latency"].(float64) > 0) || m.Rows[0]["used_cuda_graph"] != true {
				t.Errorf("row %v", m.Rows[0])
			}
		case worker.TypeError:
			failed[m.Exception]++
		}
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if measured != 9 || failed["WrongResult"] != 1 || failed["RankDied"] != 2 {
		t.Errorf("%d of 12 measured; failures %v", measured, failed)
	}
	for _, p := range fake.Problems() {
		t.Errorf("misuse: %s", p)
	}
}
