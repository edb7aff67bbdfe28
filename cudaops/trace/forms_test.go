package trace

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Data after a trace, or a damaged end of the file, gives a warning, but the trace is evaluated.
func TestReadWarnsOfDataBehindTrace(t *testing.T) {
	t.Parallel()
	text := `{"traceEvents": [` + event("a", 1, 1, 0) + `], "x": 1}`
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text)) // a write to memory cannot fail
	_ = z.Close()
	gz := b.String()
	wrong := []byte(gz)
	wrong[len(wrong)-6] ^= 1 // part of the checksum
	for _, c := range []struct{ name, in, want string }{
		{"white space", text + " \n\t", ""},
		{"garbage", text + "garbage", "7 bytes behind the end of the trace were not read"},
		{"a list with garbage", "[" + event("a", 1, 1, 0) + "]]", "1 bytes behind"},
		{"a second trace", gz + gz, " bytes behind the end of the trace were not read"},
		{"gzip with garbage", gz + "garbage garbage", "the trace is whole, but the end of the file cannot be read: gzip"},
		{"gzip without its end", gz[:len(gz)-4],
			"the trace is whole, but the end of the file cannot be read: unexpected EOF"},
		{"gzip with a wrong checksum", string(wrong),
			"the trace is whole, but the end of the file cannot be read: gzip: invalid checksum"},
		{"byte order mark", "\ufeff" + text, ""},
	} {
		r := read(t, c.in)[0]
		if r.Kernels != 1 || c.want == "" && r.Warning != "" || !strings.Contains(r.Warning, c.want) {
			t.Errorf("%s: %d kernels, warning %q, want %q", c.name, r.Kernels, r.Warning, c.want)
		}
	}
}

// A trace compressed with zstd gives the same result, independent of its name.
func TestZstd(t *testing.T) {
	t.Parallel()
	var events []string
	for i := range 5000 {
		events = append(events, event("gemm", float64(i), 1, 0))
	}
	text := `{"traceEvents": [` + strings.Join(append(events, event("ncclDevKernel_AllReduce_x", 5, 2, 0)), ",") + `]}`
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithZeroFrames(true))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = z.Write([]byte(text)) // a write to memory cannot fail
	_ = z.Close()
	whole := b.String()
	pzstd := "\x50\x2a\x4d\x18\x04\x00\x00\x00abcd" + whole // a skippable frame before the data
	for _, c := range []struct{ in, warning string }{
		{whole, ""}, {pzstd, ""},
		{whole[:len(whole)/2], "unexpected EOF"},
		{whole + "garbage", "the trace is whole, but the end of the file cannot be read"},
	} {
		r := read(t, c.in)[0]
		if c.warning == "" && (r.Kernels != 5001 || *r.CommSumNs != 2000) || !strings.Contains(r.Warning, c.warning) ||
			c.warning == "" && r.Warning != "" {
			t.Errorf("%d kernels, warning %q, want %q", r.Kernels, r.Warning, c.warning)
		}
	}
	if _, err := ReadFrom(strings.NewReader(whole[:8]+"garbage"), "t.json.zst", Options{}); err == nil {
		t.Error("garbage is a trace")
	}
}

// A kernel that occurs twice with the same launch, stream and times is counted once. Kernels that differ in
// one of these are counted separately.
func TestDuplicateKernelsCountOnce(t *testing.T) {
	t.Parallel()
	k := func(name string, ts, dur, stream, correlation int) string {
		return fmt.Sprintf(`{"ph":"X","cat":"kernel","name":%q,"pid":0,"tid":%d,"ts":%d,"dur":%d,"args":{"device":0,"stream":%d,"correlation":%d}}`, name, stream, ts, dur, stream, correlation)
	}
	nccl := "ncclDevKernel_AllReduce_x"
	events := []string{k("gemm", 0, 10, 7, 1), k(nccl, 10, 4, 7, 2), k("gemm", 20, 1, 7, 3)}
	apart := []string{k("gemm", 0, 10, 8, 1), k(nccl, 10, 4, 7, 9), k(nccl, 11, 4, 7, 2), k("gemm", 30, 0, 7, 4),
		k("gemm", 30, 0, 7, 4), k("none", 40, 1, 7, 0), k("none", 40, 1, 7, 0)}
	if r := read(t, "["+strings.Join(append(events, apart...), ",")+"]")[0]; r.Kernels != 10 || r.Warning != "" {
		t.Errorf("%d kernels, %s", r.Kernels, r.Warning)
	}
	twice := append(slices.Clone(events), events...)
	r := read(t, "["+strings.Join(twice, ",")+"]")[0]
	if r.Kernels != 3 || *r.CommSumNs != 4000 || r.Collectives[0].Count != 1 || r.Rules[0].Count != 1 ||
		r.Top[0].SumNs != 11000 {
		t.Error(dump(r))
	}
	if !strings.Contains(r.Warning, "3 kernels with the same launch, stream and times as another counted once") {
		t.Error(r.Warning)
	}
}

// A damaged event is skipped with a warning.
func TestDamagedEvents(t *testing.T) {
	t.Parallel()
	a, b := event("a", 1, 2, 0), event("b", 5, 2, 0)
	for in, want := range map[string]string{
		"[" + a + `,{"ph":"X" "cat"},` + b + "]": "left out: 1 event that cannot be read",
		"[" + a + `,7,[1],` + b + "]":            "left out: 2 events that cannot be read",
		"[" + a + "," + b + ",null]":             "",
	} {
		if r := read(t, in)[0]; r.Kernels != 2 || *r.SpanNs != 6000 || r.Warning != want {
			t.Errorf("%s: %d kernels, %q, want %q", in, r.Kernels, r.Warning, want)
		}
	}
}

// Kernels and steps without a usable time give a warning, in all event forms. Other ranges are ignored.
func TestEventsWithoutTimes(t *testing.T) {
	t.Parallel()
	good := event("gemm", 1, 2, 0) + "," + event("gemm", 5, 2, 0)
	of := func(ph, cat, name, times string) string {
		return fmt.Sprintf(`{"ph":%q,"cat":%q,"name":%q,"pid":0,"tid":9%s}`, ph, cat, name, times)
	}
	end := `{"ph":"E","pid":0,"tid":9,"ts":9}`
	for name, c := range map[string]struct{ events, want string }{
		"all is well":          {of("B", "kernel", "gemm", `,"ts":1`) + "," + end, ""},
		"no duration":          {of("X", "kernel", "gemm", `,"ts":1`), "left out: 1 kernel without a usable time"},
		"a negative one":       {of("X", "kernel", "gemm", `,"ts":1,"dur":-1`), "left out: 1 kernel without a usable time"},
		"it never ends":        {of("B", "kernel", "gemm", `,"ts":1`), "left out: 1 kernel without a usable time"},
		"it begins at no time": {of("B", "kernel", "gemm", "") + "," + end, "left out: 1 kernel without a usable time"},
		"its end is at no time": {of("B", "kernel", "gemm", `,"ts":1`) + `,{"ph":"E","pid":0,"tid":9}`,
			"left out: 1 kernel without a usable time"},
		"it ends before": {of("B", "kernel", "gemm", `,"ts":20`) + "," + end,
			"left out: 1 kernel without a usable time"},
		"too many that are open": {strings.Repeat(of("B", "kernel", "gemm", `,"ts":1`)+",", maxOpen) + of("B", "kernel",
			"gemm", `,"ts":1`), "left out: 1001 kernels without a usable time"},
		"a step": {of("X", "user_annotation", "ProfilerStep#3", `,"ts":1`),
			"left out: 1 step without a usable time"},
		"a step that never ends": {of("B", "gpu_user_annotation", "execute_context_1(8)_generation_0(0)", `,"ts":1`),
			"left out: 1 step without a usable time"},
		"another range": {of("X", "user_annotation", "forward", `,"ts":1`), ""},
	} {
		r := read(t, "["+good+","+c.events+"]")[0]
		if r.Warning != c.want || r.Incomplete != (c.want != "") {
			t.Errorf("%s: %q, want %q", name, r.Warning, c.want)
		}
	}
	// A range is not a kernel.
	r := read(t, "["+of("X", "user_annotation", "ProfilerStep#3", `,"ts":1`)+"]")[0]
	if !strings.HasPrefix(r.Error, "no kernel of a device is in it") {
		t.Error(r.Error)
	}
}

// Steps that the profiler projected onto several devices are assigned to their device.
func TestStepsOfDevices(t *testing.T) {
	t.Parallel()
	step := func(device, ts, dur int) string {
		return fmt.Sprintf(`{"ph":"X","cat":"gpu_user_annotation","name":"ProfilerStep#1","pid":%d,"tid":7,"ts":%d,"dur":%d}`,
			device, ts, dur)
	}
	res := read(t, "["+strings.Join([]string{step(0, 0, 10), step(1, 100, 20), event("a", 0, 10, 0),
		event("a", 100, 5, 1)}, ",")+"]")
	for i, wall := range []int64{10000, 20000} {
		if r := res[i]; r.Steps != 1 || r.PerStep[0].WallNs != wall {
			t.Errorf("device %d: %s", i, dump(r))
		}
	}
}

// Steps of the host in a merged trace are those of the rank. Equal steps of two ranks overlap.
func TestStepsOfMergedRanks(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(rank int) string{
		"SGLang": func(rank int) string { return fmt.Sprintf(`"pid":"[TP0%d] %d","args":{"device":0`, rank, rank) },
		"SGLang with experts": func(rank int) string {
			return fmt.Sprintf(`"pid":"[TP0%d-EP0%d] %d","args":{"device":0`, rank, rank, rank)
		},
		"TraceLens": func(rank int) string {
			return fmt.Sprintf(`"pid":%d,"args":{"device":0,"rank":%d`, 1000*rank, rank)
		},
	} {
		var events []string
		for i := range 3 {
			for rank := range 2 {
				ts := 100*i + 30*rank
				events = append(events, fmt.Sprintf(
					`{"ph":"X","cat":"python_function","name":"a.py(1): run_batch","tid":1,"ts":%d,"dur":90,%s}}`, ts, of(rank)),
					fmt.Sprintf(`{"ph":"X","cat":"kernel","name":"gemm","tid":7,"ts":%d,"dur":50,%s,"stream":7}}`, ts+10, of(rank)))
			}
		}
		for _, r := range read(t, "["+strings.Join(events, ",")+"]") {
			if r.Steps != 3 || r.PerStep[0].WallNs != 90_000 || r.PerStep[0].Kernels != 1 {
				t.Errorf("%s, device %s: %s", name, r.Device, dump(r.PerStep))
			}
		}
	}
}

// A step whose collectives run on a stream of their own, after the last kernel of the other stream, is one step.
func TestStepsOfStreams(t *testing.T) {
	t.Parallel()
	var events []string
	for i, at := range []int{0, 100} {
		for _, s := range []struct{ stream, ts, dur int }{{7, at, 50}, {20, at + 60, 30}} {
			events = append(events, fmt.Sprintf(
				`{"ph":"X","cat":"gpu_user_annotation","name":"ProfilerStep#%d","pid":0,"tid":%d,"ts":%d,"dur":%d}`,
				i, s.stream, s.ts, s.dur))
		}
		events = append(events, event("gemm", float64(at), 50, 0), event("ncclDevKernel_AllReduce_x", float64(at+60), 30, 0))
	}

	r := read(t, "["+strings.Join(events, ",")+"]")[0]
	if r.Steps != 2 {
		t.Fatalf("%d steps, want 2: %s", r.Steps, dump(r))
	}
	for _, s := range r.PerStep {
		if s.WallNs != 90_000 || s.BubbleNs != 10_000 || s.Collectives != 1 {
			t.Errorf("%s: wall %d, bubble %d, %d collectives", s.Name, s.WallNs, s.BubbleNs, s.Collectives)
		}
	}
}

func TestOtherFiles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, in, want string }{
		{"t.json.gz", "PK\x03\x04xxx", "zip archive"},
		{"r.sqlite", "SQLite format 3\x00xx", "decompress it first"},
		{"r.nsys-rep", "xxxx", "report of nsys"},
		{"r.qdstrm", "xxxx", "QdstrmImporter"},
		{"r.csv", "Start (ns),Duration (ns)\n", "nsys export --type sqlite"},
	} {
		if _, err := ReadFrom(strings.NewReader(c.in), c.name, Options{}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
