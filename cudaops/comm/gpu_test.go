//go:build linux

package comm

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"aicplan/cudaops/cuda"
	"aicplan/cudaops/measure"
	"aicplan/cudaops/worker"
)

var (
	gpuTests = flag.Bool("comm.gpus", false, "measure on the GPUs that the driver shows to this process")
	gpuOut   = flag.String("comm.out", "", "folder for the measured rows as JSON lines")
	gpuRuns  = flag.Int("comm.runs", 3, "sweeps whose spread is shown")
	gpuLabel = flag.String("comm.label", "", "part of the names of the files written")
	gpuOpts  = flag.String("comm.options", "{}", "options of the runtime as JSON")
	gpuSet   = flag.String("comm.measure", gpuSettings, "measurement settings as JSON")
	gpuMost  = flag.Int64("comm.most", 1<<40, "largest message of the sweeps, in bytes")
)

// TestMain lets the test binary run as a rank's process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == RankVerb {
		os.Exit(RankMain())
	}
	if len(os.Args) > 1 && os.Args[1] == relayVerb {
		os.Exit(relayMain())
	}
	if len(os.Args) > 1 && os.Args[1] == launchVerb {
		os.Exit(launchMain(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// gpuSettings are the settings of plans/modules/comm.
const gpuSettings = `{"min_samples":3,"max_samples":5,"target_rel_stdev":0.01,"passes":2,"max_passes":4,"pass_tolerance":0.02,"max_pass_seconds":0.1}`

type gpuHost struct {
	t     *testing.T
	host  *host
	hello worker.Hello
	rows  []worker.Row
}

// countGPUs returns how many GPUs the driver shows to this process. It skips the test if there are fewer than two.
func countGPUs(t *testing.T) int {
	t.Helper()
	if !*gpuTests {
		t.Skip("needs several GPUs; run the test binary with -comm.gpus on such a machine")
	}
	driver, err := cuda.OpenDriver()
	if err != nil {
		t.Fatal(err)
	}
	n, err := driver.Count()
	if err != nil {
		t.Fatal(err)
	}
	if n < 2 {
		t.Skipf("needs several GPUs, and the driver shows %d", n)
	}
	return n
}

func newGPUHost(t *testing.T, options map[string]any) *gpuHost {
	if options == nil {
		options = map[string]any{}
	}
	if err := json.Unmarshal([]byte(*gpuOpts), &options); err != nil {
		t.Fatal(err)
	}
	quietMemory()
	h := &host{
		init: worker.Init{Kind: "nccl", Device: -1, Options: options, Measure: json.RawMessage(*gpuSet)},
		open: OpenNode, newGroup: newGroup,
	}
	g := &gpuHost{t: t}
	hello, err := h.Hello(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s, NCCL %s (%s), %s", hello.Device, hello.Version, hello.Env["nccl_path"], hello.Env["nccl_env"])
	g.host, g.hello = h, hello
	t.Cleanup(h.group.stop)
	return g
}

// run measures one case and returns its row with the parameters.
func (g *gpuHost) run(op string, p map[string]any) (worker.Row, error) {
	rows, errs := g.runAll(op, []map[string]any{p})
	return rows[0], errs[0]
}

// runAll measures cases in turn, like an engine.
func (g *gpuHost) runAll(op string, params []map[string]any) ([]worker.Row, []error) {
	var cases []worker.Case
	for i, p := range params {
		raw, err := json.Marshal(p)
		if err != nil {
			g.t.Fatal(err)
		}
		cases = append(cases, worker.Case{Seq: int64(i), Op: op, Params: raw})
	}
	ctx, cancel := context.WithTimeout(g.t.Context(), 120*time.Second)
	defer cancel()
	res, err := serve(ctx, g.host, cases, g.hello.Window)
	if err != nil {
		g.t.Fatal(err)
	}
	rows, errs := make([]worker.Row, len(params)), make([]error, len(params))
	for i := range params {
		if f, failed := res.errs[int64(i)]; failed {
			errs[i] = &f
			continue
		}
		rows[i] = res.rows[int64(i)]
		for k, v := range params[i] {
			rows[i][k] = v
		}
		rows[i]["visits"] = res.starts[int64(i)]
		g.rows = append(g.rows, rows[i])
	}
	return rows, errs
}

func (g *gpuHost) save(name string) {
	if *gpuOut == "" {
		return
	}
	f, err := os.Create(filepath.Join(*gpuOut, name+*gpuLabel+".jsonl"))
	if err != nil {
		g.t.Fatal(err)
	}
	defer f.Close()
	enc := json.NewEncoder(f)
	for _, r := range g.rows {
		if err := enc.Encode(r); err != nil {
			g.t.Fatal(err)
		}
	}
}

// readTable reads a published table of testdata. It returns the latency by the other columns.
func readTable(t testing.TB, name string) map[string]float64 {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	head, err := r.Read()
	if err != nil || head[len(head)-1] != "latency" {
		t.Fatalf("%s: %v, %v", name, head, err)
	}
	out := map[string]float64{}
	for {
		rec, err := r.Read()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		v, err := strconv.ParseFloat(rec[len(rec)-1], 64)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.Join(rec[:len(rec)-1], ",")] = v
	}
}

// sweepCases are the published nccl_perf cases of 2 and 4 GPUs, if there are so many.
func sweepCases(count int) (keys []string, params []map[string]any) {
	for _, gpus := range []int{2, 4} {
		if gpus > count {
			continue
		}
		for _, op := range []string{AllGather, AllToAll, ReduceScatter, AllReduce} {
			for _, dtype := range []string{"half", "int8"} {
				for bytes := int64(512); bytes <= 512<<20 && bytes <= *gpuMost; bytes *= 2 {
					n := bytes / dataTypes[dtype].Size()
					keys = append(keys, fmt.Sprintf("%s,%s,%d,%d", op, dtype, gpus, n))
					params = append(params, map[string]any{"op_name": op, "nccl_dtype": dtype, "num_gpus": gpus, "message_size": n})
				}
			}
		}
	}
	return keys, params
}

// sizeClass groups messages by size for the comparison.
func sizeClass(elements int64) string {
	for _, c := range []struct {
		below int64
		name  string
	}{{16 << 10, "256 .. 8 Ki"}, {256 << 10, "16 Ki .. 128 Ki"}, {1 << 20, "256 Ki .. 512 Ki"}, {8 << 20,
		"1 Mi .. 4 Mi"}, {64 << 20, "8 Mi .. 32 Mi"}} {
		if elements < c.below {
			return c.name
		}
	}
	return "64 Mi .. 512 Mi"
}

func sweepOnGPUs(t *testing.T, method string) {
	published := readTable(t, "h200_nccl_2.29.2.csv")
	keys, params := sweepCases(countGPUs(t))
	began := time.Now()
	g := newGPUHost(t, map[string]any{"method": method})
	runs := make([]map[string]float64, *gpuRuns)
	for r := range runs {
		runs[r] = map[string]float64{}
		order := make([]int, len(keys))
		for i := range order {
			order[i] = i
		}
		if r > 0 {
			began = time.Now()
			rng := rand.New(rand.NewPCG(uint64(r), 7))
			rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		}
		var mixed []map[string]any
		for _, i := range order {
			mixed = append(mixed, params[i])
		}
		rows, errs := g.runAll(OpNCCL, mixed)
		for at, i := range order {
			if errs[at] != nil {
				t.Errorf("%s: %v", keys[i], errs[at])
				continue
			}
			rows[at]["run"] = r
			runs[r][keys[i]] = rows[at]["latency"].(float64)
		}
		t.Logf("%s run %d: %d cases in %.1f s (the first includes contexts and communicators)", method, r, len(runs[r]),
			time.Since(began).Seconds())
	}
	g.save("nccl_" + method)
	for _, dtype := range []string{"half", "int8"} {
		ratios := map[string][]float64{}
		for i, k := range keys {
			if params[i]["nccl_dtype"] != dtype {
				continue
			}
			for _, run := range runs {
				if got, ok := run[k]; ok {
					c := sizeClass(params[i]["message_size"].(int64))
					ratios[c] = append(ratios[c], got/published[k])
				}
			}
		}
		for _, c := range []string{"256 .. 8 Ki", "16 Ki .. 128 Ki", "256 Ki .. 512 Ki", "1 Mi .. 4 Mi", "8 Mi .. 32 Mi",
			"64 Mi .. 512 Mi"} {
			if r := ratios[c]; len(r) > 0 {
				t.Logf("%s %s, ours/published %-17s n=%3d p5 %.3f p50 %.3f p95 %.3f", method, dtype, c, len(r),
					measure.Percentile(r, .05), measure.Median(r), measure.Percentile(r, .95))
			}
		}
	}
	var spreads []float64
	for _, k := range keys {
		var v []float64
		for _, run := range runs {
			if x, ok := run[k]; ok {
				v = append(v, x)
			}
		}
		if len(v) == len(runs) && len(v) > 1 {
			spreads = append(spreads, slices.Max(v)/slices.Min(v))
		}
	}
	if len(spreads) > 0 {
		t.Logf("%s repeat, max/min of %d runs: p50 %.4f p90 %.4f p95 %.4f max %.4f", method, len(runs),
			measure.Median(spreads), measure.Percentile(spreads, .9), measure.Percentile(spreads, .95), slices.Max(spreads))
	}
}

func TestGPUEager(t *testing.T) { sweepOnGPUs(t, MethodEager) }

func TestGPUGraph(t *testing.T) { sweepOnGPUs(t, MethodGraph) }

func TestGPUP2P(t *testing.T) {
	count := countGPUs(t)
	g := newGPUHost(t, nil)
	for _, direction := range []string{"one_way", "both_ways"} {
		for _, bytes := range []int{256, 1 << 20, 256 << 20} {
			for src := range count {
				for dst := range count {
					if src == dst {
						continue
					}
					if _, err := g.run(OpP2P, map[string]any{"src": src, "dst": dst, "bytes": bytes,
						"direction": direction}); err != nil {
						t.Errorf("%d to %d, %d bytes: %v", src, dst, bytes, err)
					}
				}
			}
		}
	}
	g.save("p2p")
	for _, r := range g.rows {
		t.Log(r)
	}
}
