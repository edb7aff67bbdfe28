package trace

import (
	"fmt"
	"strings"
	"testing"
)

// The real traces of eight ranks name their all-to-alls in CPU events only. The waits were computed by an
// independent program that joins kernels, launches and CPU events.
func TestCollectivesNamedByCPUEvents(t *testing.T) {
	t.Parallel()
	var ranks []*Analysis
	for r := range 8 {
		res, err := Read(fmt.Sprintf("testdata/dlrm/rank%d.json.gz", r), Options{})
		if err != nil || len(res) != 1 {
			t.Fatalf("%d results, %v", len(res), err)
		}
		ranks = append(ranks, res[0])
	}
	if note := Align(ranks); note != "" {
		t.Fatal(note)
	}
	for r, want := range []int64{5581, 11119, 3275, 9557, 6370, 6034, 3341, 1529} {
		a := ranks[r]
		kinds := map[string]int64{}
		for _, c := range a.Collectives {
			kinds[c.Kind] = c.Count
		}
		if len(kinds) != 2 || kinds["all_reduce"] != 3 || kinds["alltoall"] != 5 || a.WaitNs == nil ||
			*a.WaitNs != want*1000 {
			t.Errorf("rank %d: %v, waits %v ns, want %d us", r, kinds, a.WaitNs, want)
		}
	}
}

// A kernel gets the kind that the trace states in the kernel, or in the CPU event around its launch. An
// exclusion by the rules wins.
func TestKindOfCollective(t *testing.T) {
	t.Parallel()
	const (
		comms  = `{"ph":"X","cat":"cpu_op","name":"record_param_comms","pid":9,"tid":1,"ts":%d,"dur":20,"args":{"Collective name":%q,"Group size":4,"dtype":"Float","In msg nelems":1000,"Out msg nelems":4000,"Process Group Name":"0","Process Group Ranks":"[0, 1, 2, 3]"}}`
		nccl   = `{"ph":"X","cat":"user_annotation","name":"nccl:%s","pid":9,"tid":1,"ts":%d,"dur":20}`
		launch = `{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":%d,"ts":%d,"dur":1,"args":{"correlation":%d}}`
		kernel = `{"ph":"X","cat":"kernel","name":%q,"pid":0,"tid":7,"ts":%d,"dur":8,"args":{"device":0,"stream":7,"correlation":%d%s}}`
	)
	named := func(name string) string {
		return fmt.Sprintf(`,"Collective name":%q,"Group size":2,"dtype":"BFloat16","In msg nelems":2000,"Out msg `+
			`nelems":2000`, name)
	}
	sp := fmt.Sprintf
	for _, c := range []struct {
		name   string
		events []string
		kind   string // "" for no collective
		busbw  float64
	}{
		{"kernel", []string{sp(kernel, "ncclDevKernel_SendRecv(x)", 100, 5, named("all_to_allv"))}, "alltoall", 0.25},
		{"kernel of another name", []string{sp(kernel, "void some_library::exchange(x)", 100, 5, named("_allgather_base"))},
			"all_gather", 0.25},
		{"a name that is no collective", []string{sp(kernel, "ncclDevKernel_SendRecv(x)", 100, 5, named("coalesced"))},
			"send_recv", 0.5},
		{"excluded by a rule", []string{sp(kernel, "triton_poi_fused_all_reduce_1", 100, 5, named("allreduce"))}, "", 0},
		{"CPU event with sizes", []string{sp(comms, 10, "allgather"), sp(nccl, "all_gather", 12), sp(launch, 1, 15, 5),
			sp(kernel, "ncclDevKernel_Generic(x)", 100, 5, "")}, "all_gather", 1.5},
		{"kernel before its launch", []string{sp(nccl, "broadcast", 12), sp(kernel, "ncclDevKernel_Generic(x)", 100, 5, ""),
			sp(launch, 1, 15, 5)}, "broadcast", 0},
		{"launch of another thread", []string{sp(nccl, "broadcast", 12), sp(launch, 2, 15, 5),
			sp(kernel, "ncclDevKernel_Generic(x)", 100, 5, "")}, "nccl", 0},
		{"launch after the event", []string{sp(nccl, "broadcast", 12), sp(launch, 1, 33, 5),
			sp(kernel, "ncclDevKernel_Generic(x)", 100, 5, "")}, "nccl", 0},
		{"id used by two processes", []string{sp(nccl, "broadcast", 12), sp(nccl, "all_reduce", 52), sp(launch, 1, 15, 5),
			sp(launch, 1, 55, 5), sp(kernel, "ncclDevKernel_Generic(x)", 100, 5, "")}, "nccl", 0},
		{"compute inside the event", []string{sp(nccl, "all_gather", 12), sp(launch, 1, 15, 5),
			sp(kernel, "void copy_kernel(x)", 100, 5, "")}, "", 0},
	} {
		r := read(t, `{"traceEvents":[`+strings.Join(c.events, ",")+`]}`)[0]
		kind, busbw := "", 0.0
		for _, of := range r.Collectives {
			kind = of.Kind
			if of.BusbwP50 != nil {
				busbw = *of.BusbwP50
			}
		}
		if kind != c.kind || busbw != c.busbw || r.Kernels != 1 {
			t.Errorf("%s: %q with %v GB/s of %d kernels, want %q with %v", c.name, kind, busbw, r.Kernels, c.kind, c.busbw)
		}
	}
}

// Devices of merged traces keep their ranks, also if every process calls its only GPU device 0.
func TestMergedRanks(t *testing.T) {
	t.Parallel()
	kernel := func(pid string, device, ts int) string {
		return fmt.Sprintf(`{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_x","pid":%s,"tid":7,"ts":%d,"dur":%d,"args":{"device":%d,"stream":7}}`, pid, ts, 10+5*ts, device)
	}
	head := `{"distributedInfo":{"rank":0,"world_size":2},"traceEvents":[`
	for _, c := range []struct {
		name, text   string
		devices      string
		ranks, waits []int64 // -1: unknown
	}{
		{"a device for each rank", head + kernel("0", 0, 0) + "," + kernel("1", 1, 1) + "]}", "0, 1", []int64{0, 1},
			[]int64{0, 5000}},
		{"processes with ranks", head + kernel(`"[TP00] 0"`, 0, 0) + "," + kernel(`"[TP01] 0"`, 0, 1) + "]}",
			"0 of [TP00] 0, 0 of [TP01] 0", []int64{0, 1}, []int64{0, 5000}},
		{"processes without ranks", head + kernel("11", 0, 0) + "," + kernel("12", 0, 1) + "]}", "0 of 11, 0 of 12",
			[]int64{-1, -1}, []int64{0, 5000}},
		{"some devices", head + kernel("2", 2, 0) + "," + kernel("5", 5, 1) + "]}", "2, 5", []int64{-1, -1},
			[]int64{0, 5000}},
		{"one device", head + kernel("3", 3, 0) + "]}", "3", []int64{0}, []int64{-1}},
	} {
		results := read(t, c.text)
		if note := Align(results); note != "" {
			t.Errorf("%s: %s", c.name, note)
		}
		var devices []string
		for i, r := range results {
			devices = append(devices, r.Device)
			rank, wait := int64(-1), int64(-1)
			if r.Rank != nil {
				rank = int64(*r.Rank)
			}
			if r.WaitNs != nil {
				wait = *r.WaitNs
			}
			if rank != c.ranks[i] || wait != c.waits[i] {
				t.Errorf("%s: rank %d waits %d, want %d and %d", c.name, rank, wait, c.ranks[i], c.waits[i])
			}
		}
		if got := strings.Join(devices, ", "); got != c.devices {
			t.Errorf("%s: devices %s, want %s", c.name, got, c.devices)
		}
	}
}

// Merged traces of processes with different ids are kept apart. There is a warning if processes have the same id.
func TestMergedProcesses(t *testing.T) {
	t.Parallel()
	kernel := func(ts int, more string) string {
		return fmt.Sprintf(`{"ph":"X","cat":"kernel","name":"ncclDevKernel_AllReduce_x","pid":0,"tid":7,"ts":%d,"dur":10,"args":{"device":0%s}}`, ts, more)
	}
	name := func(rank int) string {
		return fmt.Sprintf(`{"ph":"M","name":"process_name","pid":0,"tid":0,"args":{"name":"VLLM::Worker_TP%d"}}`, rank)
	}
	launch := func(pid int) string {
		return fmt.Sprintf(`{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":%d,"tid":1,"ts":1,"dur":1,"args":{}}`, pid)
	}
	const fused = "0 -1 25000; "
	a, b, c := kernel(0, ""), kernel(20, ""), kernel(5, "")
	for _, x := range []struct {
		name   string
		events []string
		want   string // device, rank and communication of each result
		warns  bool
	}{
		{"named before", []string{name(0), a, b, name(1), c}, fused, true},
		{"names first", []string{name(0), name(1), a, c, b}, fused, true},
		{"named twice", []string{name(0), a, name(0), b}, "0 -1 20000; ", false},
		{"launched by two processes", []string{launch(11), launch(12), a, c, b}, fused, true},
		{"one process", []string{name(0), launch(11), launch(11), a, b}, "0 -1 20000; ", false},
		{"with ranks", []string{kernel(0, `,"rank":3`), strings.Replace(kernel(5, `,"rank":4`), `"pid":0`, `"pid":1000`, 1)},
			"0 of 0 3 10000; 0 of 1000 4 10000; ", false},
	} {
		got, warns := "", false
		for _, r := range read(t, "["+strings.Join(x.events, ",")+"]") {
			rank := -1
			if r.Rank != nil {
				rank = *r.Rank
			}
			got += fmt.Sprintf("%s %d %d; ", r.Device, rank, *r.CommUnionNs)
			warns = warns || strings.Contains(r.Warning, "merged trace of processes with the same id")
		}
		if got != x.want || warns != x.warns {
			t.Errorf("%s: %s, warning %v; want %s", x.name, got, warns, x.want)
		}
	}
}

// Copies are those of the device, and the coverage of SMs is null if a file does not have it.
func TestCopiesAndCoverage(t *testing.T) {
	t.Parallel()
	const kernel = `{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":%d,"dur":%d,"args":{"device":0,"blocks ` +
		`per SM":%s}}`
	const copies = `{"ph":"X","cat":"gpu_memcpy","name":"Memcpy ` +
		`HtoD","pid":0,"tid":7,"ts":5,"dur":10,"args":{"device":0}},{"ph":"X","cat":"gpu_memset","name":"Memset","pid":0,"tid":8,"ts":12,"dur":6,"args":{"device":0}}`
	r := read(t, `{"traceEvents":[`+copies+","+fmt.Sprintf(kernel, 0, 30, "0.5")+","+fmt.Sprintf(kernel, 50, 10,
		"2.25")+`]}`)
	if len(r) != 1 || *r[0].CopyNs != 13000 || *r[0].SMCoverage != 62.5 || *r[0].BusyNs != 40000 {
		t.Errorf("%+v", r[0])
	}
	r = read(t, `{"traceEvents":[`+event("gemm", 1, 1, 0)+`]}`)
	if *r[0].CopyNs != 0 || r[0].SMCoverage != nil {
		t.Errorf("%+v", r[0])
	}
	r = read(t, `{"traceEvents":[`+strings.ReplaceAll(copies, `"device":0`, `"device":1`)+","+event("gemm", 1, 1, 0)+`]}`)
	if len(r) != 1 || *r[0].CopyNs != 0 {
		t.Errorf("%d devices, one of them with copies only", len(r))
	}
}
