//go:build linux

package comm

import (
	"testing"
	"time"

	"aicplan/cudaops/worker"
)

func TestCopiesBetweenPeers(t *testing.T) {
	b := newBench(t, 4, nil, quick)
	b.fake.Latency = func(o fakeOp) time.Duration { return time.Duration(1000+o.Bytes) * time.Nanosecond }
	row := b.must(OpP2P, `{"src":3,"dst":1,"bytes":4096}`)
	if !near(row["latency"].(float64), 5096e-6) || !near(row["gb_per_s"].(float64), 4096/5096.0) {
		t.Errorf("row: %v", row)
	}
	if row["access"] != true {
		t.Errorf("the peers have access, and the row has %v", row["access"])
	}
	both := b.must(OpP2P, `{"src":0,"dst":2,"bytes":1048576,"direction":"both_ways"}`)
	if !near(both["latency"].(float64), 1049576e-6) {
		t.Errorf("both ways: %v", both)
	}
	if b.ranks.started() != 0 {
		t.Error("copies started ranks")
	}
	b.fails(worker.ClassUnsupportedConfig, "both 1", OpP2P, `{"src":1,"dst":1,"bytes":4096}`)
	b.fails(worker.ClassUnsupportedConfig, "this node has 4", OpP2P, `{"src":1,"dst":4,"bytes":4096}`)
	b.fake.Corrupt = func(o fakeOp, _ int) bool { return o.Name == "copy" }
	b.fails(worker.ClassFrameworkBug, "wrong result", OpP2P, `{"src":0,"dst":1,"bytes":512}`)
}
