package trace

import (
	"fmt"
	"strings"
	"testing"
)

// call is a collective of a trace: its duration in microseconds and its group.
type call struct {
	kind  string
	us    int
	group string // name and ranks, or ""
}

// rankTrace returns the trace of a rank with consecutive collectives.
func rankTrace(t *testing.T, file string, rank, world int, calls ...call) *Analysis {
	t.Helper()
	var ev []string
	for i, c := range calls {
		args := `"device":0`
		if name, ranks, ok := strings.Cut(c.group, " "); ok {
			args += fmt.Sprintf(`,"Collective name":%q,"Process Group Name":%q,"Process Group Ranks":%q`, c.kind, name, ranks)
		}
		ev = append(ev, fmt.Sprintf(`{"ph":"X","cat":"kernel","name":"ncclDevKernel_%s_x","pid":0,"tid":7,"ts":%d,"dur":%d,"args":{%s}}`, c.kind, 1000*i, c.us, args))
	}
	text := fmt.Sprintf(`{"distributedInfo":{"rank":%d,"world_size":%d},"traceEvents":[%s]}`, rank, world,
		strings.Join(ev, ","))
	res, err := ReadFrom(strings.NewReader(text), file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return res[0]
}

// wait returns a rank's waiting time in microseconds, or -1 if it was not compared.
func wait(r *Analysis) int64 {
	if r.WaitNs == nil {
		return -1
	}
	return *r.WaitNs / 1000
}

// Ranks of layouts with several groups are compared within the groups, for all ways in which traces
// identify groups.
func TestAlignLayouts(t *testing.T) {
	t.Parallel()
	const ar, sr = "AllReduce", "SendRecv"
	type rank struct {
		file  string
		rank  int
		calls []call
	}
	tp := func(us int, ranks string, pp ...call) []call {
		return append([]call{{ar, us, "tp " + ranks}}, pp...)
	}
	for _, c := range []struct {
		name  string
		world int
		ranks []rank
		want  []int64
		note  string
	}{
		{
			// The groups of the second stage have different names on its ranks, and the stages send
			// different numbers of messages.
			"tp 2 x pp 2, groups named", 4, []rank{
				{"r0.json", 0, tp(10, "[0, 1]", call{sr, 5, "pp [0, 2]"})},
				{"r1.json", 1, tp(40, "[0, 1]", call{sr, 5, "pp [1, 3]"})},
				{"r2.json", 2, tp(300, "[2, 3]", call{sr, 9, "pp [0, 2]"}, call{sr, 9, "pp [0, 2]"})},
				{"r3.json", 3, tp(100, "[2, 3]", call{sr, 9, "pp [1, 3]"}, call{sr, 9, "pp [1, 3]"})},
			}, []int64{0, 30, 200, 0}, "",
		},
		{
			// Calls outside of process groups, with one more call in the first stage.
			"tp 2 x pp 2, by the names of the files", 4, []rank{
				{"dp0_pp0_tp0_rank0.1.json", 0, []call{{ar, 10, ""}, {ar, 10, ""}}},
				{"dp0_pp0_tp1_rank1.1.json", 1, []call{{ar, 11, ""}, {ar, 12, ""}}},
				{"dp0_pp1_tp0_rank2.1.json", 2, []call{{ar, 90, ""}}},
				{"dp0_pp1_tp1_rank3.1.json", 3, []call{{ar, 70, ""}}},
			}, []int64{0, 3, 20, 0}, "",
		},
		{
			"two replicas that count for themselves", 2, []rank{
				{"dp0_pp0_tp0_rank0.1.json", 0, tp(10, "[0, 1]")},
				{"dp0_pp0_tp1_rank1.1.json", 1, tp(20, "[0, 1]")},
				{"dp1_pp0_tp0_rank0.1.json", 0, tp(500, "[0, 1]")},
				{"dp1_pp0_tp1_rank1.1.json", 1, tp(400, "[0, 1]")},
			}, []int64{0, 10, 100, 0}, "",
		},
		{
			"experts over two replicas of one world", 2, []rank{
				{"dp0_pp0_tp0_rank0.1.json", 0, []call{{"AllToAll", 10, "ep [0, 1]"}}},
				{"dp1_pp0_tp0_rank1.1.json", 1, []call{{"AllToAll", 25, "ep [0, 1]"}}},
			}, []int64{0, 15}, "",
		},
		{
			"a pipeline alone", 2, []rank{
				{"r0.json", 0, []call{{sr, 5, "pp [0, 1]"}}},
				{"r1.json", 1, []call{{sr, 50, "pp [0, 1]"}}},
			}, []int64{-1, -1}, "",
		},
		{
			"a rank is missing", 3, []rank{
				{"r0.json", 0, tp(10, "[0, 1, 2]")},
				{"r2.json", 2, tp(12, "[0, 1, 2]")},
			}, []int64{0, 2}, "there are traces of 2 of 3 ranks (missing: 1)",
		},
		{
			"two runs", 2, []rank{
				{"r0.json", 0, tp(10, "[0, 1]")},
				{"r1.json", 1, tp(12, "[1, 2]")},
			}, []int64{-1, -1}, "no two of them have a group of collectives in common",
		},
		{
			"another number of calls", 2, []rank{
				{"r0.json", 0, tp(10, "[0, 1]", tp(10, "[0, 1]")...)},
				{"r1.json", 1, tp(12, "[0, 1]")},
			}, []int64{-1, -1}, "r0.json has 2 all_reduce, r1.json has 1",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var all []*Analysis
			for _, r := range c.ranks {
				all = append(all, rankTrace(t, r.file, r.rank, c.world, r.calls...))
			}
			if note := Align(all); !strings.Contains(note, c.note) || c.note == "" && note != "" {
				t.Errorf("%q, want %q", note, c.note)
			}
			for i, r := range all {
				if wait(r) != c.want[i] {
					t.Errorf("%s waited %d us, want %d", r.File, wait(r), c.want[i])
				}
			}
		})
	}
}

// The busy time of a truncated trace is that of a part of the run.
func TestImbalanceOfTruncatedTraceIsUnknown(t *testing.T) {
	t.Parallel()
	for _, cut := range []bool{false, true} {
		var all []*Analysis
		for i := range 2 {
			text := "[" + event("gemm", 0, 10, 0) + "," + event("gemm", 20, 10, 0)
			if !cut || i == 0 {
				text += "]"
			}
			r, err := ReadFrom(strings.NewReader(text), fmt.Sprintf("kineto_trace_%d.json", i), Options{})
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r...)
		}
		if Align(all); (all[0].Imbalance == nil) != cut {
			t.Errorf("truncated %v: imbalance %v", cut, dump(all[0].Imbalance))
		}
	}
}
