package pyhost_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"aicplan/cudaops/pyhost"
)

// TestMeasuringOnADeviceInVirtualTime runs the host's measuring on a device whose
// times, clock and energy are known.
func TestMeasuringOnADeviceInVirtualTime(t *testing.T) {
	host, err := pyhost.Write(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python(t), filepath.Join(testdata(t, "fake_gpu.py")), host)
	cmd.Env = append(cmd.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	text, err := cmd.Output()
	if err != nil {
		if x, ok := err.(*exec.ExitError); ok {
			t.Fatalf("%v\n%s", err, x.Stderr)
		}
		t.Fatal(err)
	}
	var got map[string]map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	number := func(run, name string) float64 {
		v, ok := got[run][name].(float64)
		if !ok {
			t.Fatalf("%s has no %s: %v", run, name, got[run])
		}
		return v
	}
	near := func(run, name string, want, within float64) {
		t.Helper()
		if v := number(run, name); !(math.Abs(v/want-1) <= within) {
			t.Errorf("%s: %s is %v, want %v", run, name, v, want)
		}
	}
	near("cool", "latency", 0.020, 0.001)
	near("cool", "sm_clock_mhz", 1980, 0.001)
	// After its warm-up a case runs at the clock that it holds, and the row says
	// that clock and not one that is mixed with the warm-up's.
	near("held", "latency", 0.020*1980/1400, 0.001)
	near("held", "sm_clock_mhz", 1400, 0.001)
	// At the sustained point a case that lowers the clock at once runs until it
	// holds its own; one that draws little has the same row at both points.
	near("sustained", "latency", 0.020*1980/1400, 0.001)
	near("sustained", "sm_clock_mhz", 1400, 0.001)
	near("light", "latency", 0.020, 0.001)
	for run, point := range map[string]string{"cool": "recovered", "sustained": "sustained", "light": "sustained"} {
		if got[run]["operating_point"] != point {
			t.Errorf("%s says operating_point %v", run, got[run]["operating_point"])
		}
	}
	// Other data between two executions make a row of operands that come from memory,
	// in which the time of that data is not.
	near("hot", "latency", 0.020, 0.001)
	near("cold", "latency", 0.028, 0.001)
	near("cold", "latency_hot", 0.020, 0.001)
	near("cold", "p10", 0.028, 0.001)
	// Its power and energy are of the same: what both draw, less what the data does.
	near("cold_power", "latency", 0.028, 0.001)
	near("cold_power", "power_latency", 0.028*1980/1400, 0.04)
	near("cold_power", "energy", 400*0.028e-3*1980/1400, 0.04)
	near("cold_power", "power", 400, 0.04)
	// The protocol of the collectors knows no such thing, calls without a graph are as
	// slow as their host, and a long case does not fit into the cache.
	near("cold_reference", "latency", 0.020, 0.001)
	near("cold_eager", "latency", 0.020, 0.001)
	near("cold_long", "latency", 0.300, 0.001)
	for run, want := range map[string]any{"hot": nil, "cold": "cold", "cold_reference": nil, "cold_power": "cold", "cold_eager": "hot", "cold_long": "hot", "cold_held": "hot"} {
		if got[run]["cache"] != want || (want != "cold") != (got[run]["latency_hot"] == nil) {
			t.Errorf("%s says cache %v and latency_hot %v", run, got[run]["cache"], got[run]["latency_hot"])
		}
	}
	if _, ok := got["reference"]["operating_point"]; ok {
		t.Error("the collectors' protocol controls no operating point, and its row says one")
	}
	// Functions that are slow at first leave no short blocks behind.
	if ms := number("warming", "block_ms"); !(ms >= 2.5) {
		t.Errorf("blocks of %v ms, 5 were asked for", ms)
	}
	// Calls without a graph are queued while the device is kept busy.
	if number("eager", "sleeps") == 0 || got["eager"]["used_cuda_graph"] != false {
		t.Errorf("eager blocks: %v", got["eager"])
	}
	// A host that needs longer for a call than the device is not what is timed.
	near("slow_host_recovered", "latency", 0.020, 0.001)
	near("slow_host_sustained", "latency", 0.020, 0.001)
	near("power", "energy", 400*0.020e-3*1980/1400, 0.04)
	near("power", "power_latency", 0.020*1980/1400, 0.04)
	// The loop that limits the mean power of a second acts late. A case that it is
	// going to hold is timed after it did, wherever the worker was before: also one
	// whose clock does not say so before that, and one whose first look was at the
	// clock of another case, or fell into a cut.
	held := []string{"capped_after_idle", "capped_behind", "capped_after_a_pause", "capped_behind_light", "capped_after_mid",
		"late", "late_behind", "late_behind_capped", "capped_behind_edge", "capped_long_launch", "capped_without_idle_clock", "silent_capped_after_idle", "silent_barely", "with_power", "behind_power"}
	for _, run := range append(held, "mid", "edge", "silent_edge", "light_behind_capped") {
		near(run, "sm_clock_mhz", number(run, "kept"), 0.002)
	}
	for _, run := range held[:9] {
		near(run, "latency", 0.4*1980/number(run, "kept"), 0.002)
	}
	for _, run := range []string{"capped_after_idle", "capped_after_a_pause", "capped_behind_light", "capped_after_mid", "late", "silent_capped_after_idle", "silent_barely"} {
		near(run, "took", 1.45, 0.06)
	}
	// What such a case left, the next one need not do again, be it the work that its
	// power was measured by. Cases that the cap leaves alone run no longer than they did.
	for _, run := range []string{"capped_behind", "late_behind", "light_behind_capped", "mid", "silent_edge"} {
		near(run, "took", 0.43, 0.05)
	}
	if took := number("behind_power", "took") - number("behind_power", "power_seconds"); !(took <= 1.1) {
		t.Errorf("behind a case whose power was measured one took %v s without its own power", took)
	}
	// A lock hides what the cap does to a clock: power says it, or a whole second of
	// the case.
	for _, run := range []string{"locked_after_idle", "locked_behind", "locked_mid", "locked_light", "locked_silent"} {
		near(run, "sm_clock_mhz", number(run, "kept"), 0.002)
		near(run, "latency", 0.2*1980/number(run, "kept"), 0.002)
	}
	near("locked_light", "took", 0.43, 0.1)
	near("light_after_idle", "latency", 0.4, 0.001)
	if took := number("light_after_idle", "took"); !(took <= 0.1) {
		t.Errorf("a case that draws little took %v s", took)
	}
	// Whole tables, with pauses in which cases are prepared: every row shows the clock
	// that its case keeps, but for the swing of that clock.
	for _, run := range []string{"table_sorted", "table_mixed", "table_slow"} {
		if low, high := number(run, "low"), number(run, "high"); !(low >= -0.02) || !(high <= 0.02) {
			t.Errorf("%s: clocks are %+.3f to %+.3f from those that the cases keep", run, low, high)
		}
		if took := number(run, "light"); !(took <= 0.75) {
			t.Errorf("%s: a light case took %v s", run, took)
		}
	}
	// So do rows of cases that begin near the clock and the power by which held ones are
	// told, behind idle times and behind each other, and of a long one that falls
	// behind its look.
	for _, run := range []string{"edges_begun", "edges_behind", "locks"} {
		if low, high := number(run, "low"), number(run, "high"); !(low >= -0.025) || !(high <= 0.025) {
			t.Errorf("%s: clocks are %+.3f to %+.3f from those that the cases keep", run, low, high)
		}
	}
	near("later", "sm_clock_mhz", number("later", "kept"), 0.002)
	// settle is the caller's own choice: half of it is timed, whatever the clock does.
	near("settle", "took", 0.42, 0.03)
	near("settle", "sm_clock_mhz", 1590, 0.002)
	// A launch that is longer than the window ends, with as many samples as others.
	if n := number("capped_long_launch", "executions"); !(n <= 28) {
		t.Errorf("%v executions of 2 s each", n)
	}
	// Nobody knows what the cap does where neither the clock of an idle device nor the
	// power is known.
	near("capped_and_nothing_known", "took", 0.43, 0.05)
	if said := fmt.Sprint(got["capped_and_nothing_known"]["said"]); strings.Count(said, "may be too fast") != 1 {
		t.Errorf("where nothing is known of a capped device, workers say %s", said)
	}
	if said := fmt.Sprint(got["silent_edge"]["said"]); said != "[]" {
		t.Errorf("where the clock is known, workers say %s", said)
	}
	for _, run := range []string{"capped_after_idle", "capped_behind", "light_behind_capped", "mid", "late", "edge", "capped_behind_edge", "with_power", "settle", "later", "capped_long_launch", "cool", "held", "reference", "power", "sustained", "light", "eager", "slow_host_recovered", "slow_host_sustained", "warming"} {
		if number(run, "executions") != number(run, "calls") {
			t.Errorf("%s: %v executions in the row, %v were made", run, got[run]["executions"], got[run]["calls"])
		}
	}
	// Blocks of our own do not contain the launch of their first replay; those of
	// the collectors' method do, as the collectors' do.
	if number("cool", "sleeps") == 0 || number("reference", "sleeps") != 0 {
		t.Errorf("%v and %v blocks had a lead", got["cool"]["sleeps"], got["reference"]["sleeps"])
	}
	near("power", "power", 400, 0.03)
	near("power", "power_limit", 700, 0)
	if text, _ := got["no_counter"]["error"].(string); !strings.Contains(text, "stands still") {
		t.Errorf("a counter that stands still gives %v", got["no_counter"])
	}
	// What the driver says of slowdowns is the row's, and nothing where it says nothing.
	for run, want := range map[string]any{"cool": false, "light": false, "reference": false, "slow_True": true, "slow_None": nil, "no_library": nil} {
		if is := got[run]["throttled"]; is != want {
			t.Errorf("%s: throttled is %v, want %v", run, is, want)
		}
	}
	// Without the library the run goes on, and says so.
	near("no_library", "latency", 0.020, 0.001)
	if said := fmt.Sprint(got["no_library"]["said"]); got["no_library"]["power"] != nil || !strings.Contains(said, "power is not measured: libnvidia-ml") {
		t.Errorf("without the library: %v", got["no_library"])
	}
}
