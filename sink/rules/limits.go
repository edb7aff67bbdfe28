package rules

import (
	_ "embed"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"aicplan/sink/base/fileutil"
	"aicplan/sink/table"
)

// Limits of a row's time. The estimate is that of Likely: what kernels usually reach of the system's peaks.
const (
	// shortest is below the time of any kernel launch, in milliseconds, and shortestCall below that of a
	// function on a processor.
	shortest, shortestCall = 0.0005, 1e-6
	// longest is above the time of any single execution, in milliseconds.
	longest = 100_000.0
	// leastShare and mostTimes are the extreme ratios of a row to its estimate, and leastFitted is
	// leastShare for estimates that were fitted to whole modules.
	leastShare, leastFitted, mostTimes = 0.1, 0.001, 3000.0
)

// Limits of tables and of groups of rows.
const (
	// FasterShare is how large a share of the rows may be faster than the peaks allow, by less than
	// twice: operands that stay in a cache make it possible.
	FasterShare = 0.001
	// bestTimes bounds the fifth percentile of row / estimate: in every table some rows come near to it.
	// roughTimes does for tables with rough estimates, and linkTimes for collectives.
	bestTimes, roughTimes, linkTimes = 2.4, 4.0, 1.5
	// groupTimes is roughTimes for the rows that share one word.
	groupTimes = 20.0
	// partTimes bounds the 99th percentile of row / estimate: tables with many disturbed rows have up to 280.
	partTimes = 400.0
	// smallest bounds the shortest row of a table without estimates, in milliseconds, and groupSmallest that of
	// rows that share one word: every grid has small cases.
	smallest, groupSmallest = 5.0, 10.0
	// coarse bounds the resolution of the values as a share of the 5th percentile.
	coarse = 0.05
	// slowMemory bounds the fifth percentile of the time of rows that move much memory, as a multiple of
	// the time at the system's bandwidth: in every table some kernels reach three quarters of it.
	slowMemory, muchMemory = 1.4, 256 << 20
	// slowCompute is slowMemory for large products in bfloat16, which reach two thirds of the peak.
	slowCompute, muchCompute = 1.45, 100e-6
	// largeTimes bounds the fifth percentile of row / estimate of rows whose kernels take long.
	largeTimes, longKernel = 1.3, 100e-6
	// noTime is the time of cases that take no time themselves, in milliseconds: see the bounds of launches.
	noTime = 0.001
	// enoughRows and enoughGroup are how many rows are needed for a statement about a table or a group.
	enoughRows, enoughGroup = 50, 20
)

//go:embed sizes.json
var sizesJSON []byte

// bounds are limits by table and by column.
var bounds = fileutil.Embedded[struct {
	// Plausible are the least and the largest size that models and machines have, by column.
	Plausible map[string][2]int64
	// Ordered are pairs of columns of which the first is at most the second.
	Ordered [][2]string
	// Launch bounds the shortest case that takes no time itself, in milliseconds, by table: twice what
	// published tables have.
	Launch map[string]float64
}]("sizes.json", sizesJSON)

// Limits compares times with what the hardware can do, in both directions: no row is shorter than a
// launch, faster than the peaks (by more than tolerance, a share) or far above what kernels usually take,
// and tables and groups as a whole have the magnitude of milliseconds.
func (t *Table) Limits(tolerance float64) Result {
	out := Result{Problems: t.otherMetrics()}
	scale := t.milliseconds()
	if scale == 0 {
		for i := range t.Values {
			out.skip(i, t.Metric+" is a rate, and only times have limits")
		}
		return out
	}

	var least []float64
	var likely []Kernel
	low := leastShare

	if t.Perf != nil && t.System != nil {
		if least, _ = SpeedOfLight(t.Rec, t.Perf, t.System); links[t.Perf.Name] {
			least = overNVLink(t.Rec, t.System)
		}
		likely, _ = Likely(t.Rec, t.Perf.Name, "", t.Framework, t.System)
		if Fitted(t.Perf.Name) {
			low = leastFitted
		}
	}

	// Rows of no built-in table and no system may be of a processor, which launches nothing.
	floor := shortest
	if (t.Perf == nil || t.Perf.Declared) && t.System == nil {
		floor = shortestCall
	}

	ratios := make([]float64, len(t.Values))
	var faster []Offence

	for i, v := range t.Values {
		ratios[i] = math.NaN()
		if why := t.unusable(i); why != "" {
			out.bad(i, math.Inf(1), "("+why+")")
			continue
		}

		ms := v * scale
		if likely != nil && likely[i].Seconds > 0 && ms > 0 {
			ratios[i] = ms / 1000 / likely[i].Seconds
		}

		switch r := ratios[i]; {
		case ms > longest:
			out.bad(i, ms, fmt.Sprintf("(above %s s)", number(longest/1000)))
		case t.zeroOK():
			// A table of differences has no lower limit.
		case ms < floor:
			out.bad(i, floor/ms, fmt.Sprintf("(no launch is shorter than %s us)", number(1000*floor)))
		case least != nil && ms*(1+tolerance) < least[i]:
			o := Offence{i, least[i] / ms, fmt.Sprintf("(at least %s ms: %s %% of the speed of light)",
				number(least[i]), number(100*least[i]/ms))}
			if ms*2 < least[i] {
				out.Offences = append(out.Offences, o)
			} else {
				faster = append(faster, o)
			}

		case r < low:
			out.bad(i, low/r, fmt.Sprintf("(%s times what its kernels usually take)", number(r)))

		case r > mostTimes:
			out.bad(i, r, fmt.Sprintf("(%s times what its kernels usually take)", number(r)))
		}
	}

	if float64(len(faster)) > FasterShare*float64(len(t.Values)) {
		out.Offences = append(out.Offences, faster...)
	}

	out.Problems = slices.Concat(out.Problems, t.magnitude(ratios, scale), t.large(ratios, likely), t.peaks(scale),
		t.launches(likely), t.shifted(), t.batches(), t.implausible(), t.resolution())
	return out
}

// otherMetrics reports values that are no measurements in the metrics beside the judged one. Power judges power.
func (t *Table) otherMetrics() (out []string) {
	if t.Perf == nil {
		return nil
	}

	for _, m := range t.Perf.Schema().Metrics {
		if m.Name == t.Metric || strings.HasPrefix(m.Name, "power") || !table.Has(t.Rec, m.Name) {
			continue
		}

		why, first, err := Metric(t.Rec, m.Name, false, m.Zero || m.Lacking && !t.Perf.Declared)
		if err == nil && first >= 0 {
			out = append(out, fmt.Sprintf("%s is no measurement in some rows (%s), such as %s", m.Name, why,
				table.Describe(t.Rec, first, append(slices.Clone(t.Key), m.Name))))
		}
	}
	return out
}

// streams are the tables whose large rows read weights or a cache once and do little else.
var streams = []string{"gemm_perf", "generation_attention_perf", "generation_mla_perf"}

// peaks reports a table of which no row comes near to the system's memory bandwidth or to its peak of
// multiplications: rows of another GPU, of a throttled one, or of several executions.
func (t *Table) peaks(scale float64) []string {
	if t.Perf == nil || t.System == nil || !slices.Contains(streams, t.Perf.Name) {
		return nil
	}

	works, _ := Works(t.Rec, t.Perf)
	var moved, computed []float64
	for i, w := range works {
		memory := t.System.MemorySeconds(w.Bytes)
		compute, ok := t.System.ComputeSeconds(w.Flops, w.Dtype)
		if !ok || t.unusable(i) != "" {
			continue
		}

		switch {
		case w.Bytes > muchMemory && memory > 2*compute:
			moved = append(moved, t.Values[i]*scale/1000/memory)
		case t.Perf.Name == "gemm_perf" && w.Dtype == "bfloat16" && compute > max(2*memory, muchCompute):
			computed = append(computed, t.Values[i]*scale/1000/compute)
		}
	}

	return append(
		t.above(slowMemory, moved, "of %d rows that move over 256 MiB, 95 %% take more than %s times as long as at the "+
			"bandwidth of %s: are they of another GPU?"),
		t.above(slowCompute, computed, "of %d large products in bfloat16, 95 %% take more than %s times as long as at "+
			"the peak of %s: was the GPU throttled?")...,
	)
}

// above returns the problem that the 5th percentile of many values is above a limit. It sorts the values. format is
// for their number, the percentile and the name of the system.
func (t *Table) above(limit float64, values []float64, format string) []string {
	slices.Sort(values)
	if len(values) < enoughRows || rank(values, 0.05) <= limit {
		return nil
	}

	return []string{fmt.Sprintf(format, len(values), number(rank(values, 0.05)), t.System.Name)}
}

// launches reports a table of which even the smallest cases take the time of a host's launch.
func (t *Table) launches(likely []Kernel) []string {
	if likely == nil || bounds().Launch[t.Perf.Name] == 0 || !strings.Contains(t.System.DeviceName(), "NVIDIA") {
		return nil
	}

	shortest, n := math.Inf(1), 0
	for i, k := range likely {
		if k.Seconds > 0 && k.Seconds < Launch+noTime/1000 && t.unusable(i) == "" {
			shortest, n = min(shortest, t.Values[i]), n+1
		}
	}

	if n < enoughRows || shortest <= bounds().Launch[t.Perf.Name] {
		return nil
	}

	return []string{fmt.Sprintf("the smallest of %d cases that take less than a microsecond takes %s ms: is a launch "+
		"by the host in every row?", n, number(shortest))}
}

// magnitude judges the table and its groups by the rows that come nearest to their estimates.
func (t *Table) magnitude(ratios []float64, scale float64) []string {
	var out []string
	near := known(ratios)
	switch {
	case len(near) >= enoughRows:
		if best := rank(near, 0.05); best > t.bestTimes() {
			out = append(out, fmt.Sprintf("95 %% of the rows take more than %s times what kernels of %s usually "+
				"take: is %s in another unit, or a sum over several executions?", number(best), t.System.Name, t.Metric))
		}

	case !t.zeroOK():
		if v := known(t.Values); len(v) >= enoughRows && v[0]*scale > smallest {
			out = append(out, fmt.Sprintf("the shortest of %d rows takes %s ms: is %s in another unit?",
				len(v), number(v[0]*scale), t.Metric))
		}
	}

	if len(out) > 0 || len(near) == 0 && t.zeroOK() {
		return out
	}

	judged, share, limit := ratios, 0.05, groupTimes
	problem := "the %d rows of %s take more than %s times what kernels usually take"
	if len(near) == 0 {
		judged, share, limit = make([]float64, len(t.Values)), 0, groupSmallest
		for i, v := range t.Values {
			judged[i] = v * scale
		}
		problem = "the shortest of the %d rows of %s takes %s ms: are they in another unit?"
	}

	for _, name := range t.identity() {
		codes, words, err := table.Codes(t.Rec, name)
		if err != nil || len(words) > 64 {
			continue
		}

		none := len(words) // the group of rows without a word
		groups, first := make([][]float64, none+1), make([]int, none+1)
		for i, code := range codes {
			id := int(code)
			if id < 0 {
				id = none
			}
			if !math.IsNaN(judged[i]) {
				groups[id], first[id] = append(groups[id], judged[i]), i
			}
		}

		for id, g := range groups {
			slices.Sort(g)
			if len(g) >= enoughGroup && rank(g, share) > limit {
				out = append(out, fmt.Sprintf(problem, len(g), table.Describe(t.Rec, first[id], []string{name}),
					number(rank(g, share))))
			}
		}
	}

	if len(out) == 0 && len(near) >= enoughRows && near[len(near)-enoughGroup] > partTimes {
		if most := rank(near, 0.99); most > partTimes {
			out = append(out, fmt.Sprintf("1 %% of the rows take more than %s times what kernels of %s usually take: is %s in "+
				"another unit there?", number(most), t.System.Name, t.Metric))
		}
	}
	return out
}

// steady are the tables in which some kernels that take long come near to their estimates.
var steady = []string{"gemm_perf", "context_attention_perf", "generation_attention_perf", "moe_perf"}

// large reports a table whose large rows are all above their estimates.
func (t *Table) large(ratios []float64, likely []Kernel) []string {
	if likely == nil || !slices.Contains(steady, t.Perf.Name) {
		return nil
	}

	var long []float64
	for i, k := range likely {
		if k.Seconds > longKernel && !math.IsNaN(ratios[i]) {
			long = append(long, ratios[i])
		}
	}

	return t.above(largeTimes, long, "of %d large rows, 95 %% take more than %s times what kernels of %s usually take: "+
		"are two columns exchanged, or is a row a sum over several executions?")
}

// sizes are the columns whose grids contain powers of two.
var sizes = strings.Fields("batch_size isl m num_tokens num_token seq_len message_size")

// shifted reports columns of sizes that are powers of two plus or minus one, and never a power of two.
func (t *Table) shifted() []string {
	const least, enough = 64, 4 // small sizes can be both
	var out []string
	for _, name := range sizes {
		col, err := table.Int64s(t.Rec, name)
		if err != nil || !slices.Contains(t.Key, name) {
			continue
		}

		seen := map[int64]bool{}
		for _, v := range col.Values {
			seen[v] = true
		}

		counts := map[int64]int{}
		for v := range seen {
			for d := int64(-1); d <= 1; d++ {
				if p := v - d; p >= least && p&(p-1) == 0 {
					counts[d]++
				}
			}
		}

		for _, d := range []int64{-1, 1} {
			if counts[0] == 0 && counts[d] >= enough {
				out = append(out, fmt.Sprintf("no value of %s is a power of two of %d or more, and %d are one off it: was a "+
					"constant added?", name, least, counts[d]))
			}
		}
	}
	return out
}

// manyRequests is above the batches of any table.
const manyRequests = 4096

// batches reports batches that are larger than the longest sequence.
func (t *Table) batches() []string {
	most := func(name string) int64 {
		col, err := table.Int64s(t.Rec, name)
		if err != nil || col.Len() == 0 {
			return 0
		}
		return slices.Max(col.Values)
	}

	batch, tokens := most("batch_size"), most("isl")+most("step")
	if batch < manyRequests || tokens == 0 || batch <= tokens {
		return nil
	}
	return []string{fmt.Sprintf("batch_size is up to %d, and sequences have up to %d tokens: are two columns exchanged?",
		batch, tokens)}
}

// implausible reports sizes that no model or machine has.
func (t *Table) implausible() (out []string) {
	if t.Perf == nil || t.Perf.Declared {
		return nil
	}

	add := func(name, what string, wrong func(v int64, row int) bool) {
		col, err := table.Int64s(t.Rec, name)
		if err != nil {
			return
		}

		first, n := -1, 0
		for i, v := range col.Values {
			if !col.Null(i) && wrong(v, i) {
				if n++; first < 0 {
					first = i
				}
			}
		}
		if n > 0 {
			out = append(out, fmt.Sprintf("%s is %s in %d rows, such as %s: are two columns exchanged?", name, what, n,
				table.Describe(t.Rec, first, t.Key)))
		}
	}

	for _, name := range slices.Sorted(maps.Keys(bounds().Plausible)) {
		has := bounds().Plausible[name]
		add(name, fmt.Sprintf("not from %d to %d", has[0], has[1]),
			func(v int64, _ int) bool { return v < has[0] || v > has[1] })
	}
	add("num_tokens", "not batch_size times seq_len", t.notProduct("batch_size", "seq_len"))
	// Every request of a decode step has one new token; step counts those before it.
	if name := t.Perf.Name; strings.Contains(name, "generation") && !strings.HasPrefix(name, "wideep") {
		add("isl", "not 1", func(v int64, _ int) bool { return v != 1 })
	}
	for _, pair := range bounds().Ordered {
		most, _ := table.Int64s(t.Rec, pair[1]) // nil if there is none
		add(pair[0], "above "+pair[1], func(v int64, row int) bool { return !most.Null(row) && v > most.Values[row] })
	}
	return out
}

// notProduct returns a function that reports whether a value is not the product of two other columns of its row.
func (t *Table) notProduct(a, b string) func(v int64, row int) bool {
	x, _ := table.Int64s(t.Rec, a) // nil if there is none
	y, _ := table.Int64s(t.Rec, b)
	return func(v int64, row int) bool { return !x.Null(row) && !y.Null(row) && v != x.Values[row]*y.Values[row] }
}

// bestTimes returns the bound of the fifth percentile of row / estimate.
func (t *Table) bestTimes() float64 {
	switch name := t.Perf.Name; {
	case links[name]:
		return linkTimes
	case Fitted(name) || slices.Contains([]string{"context_mla_perf", "scale_matrix_perf", "computescale_perf"}, name):
		return roughTimes
	}
	return bestTimes
}

func known(values []float64) []float64 {
	out := slices.DeleteFunc(slices.Clone(values), math.IsNaN)
	slices.Sort(out)
	return out
}

// quantum returns the step in which the values are given: 0 if they have more than ten digits after the
// point.
func (t *Table) quantum() float64 {
	var digits []int
	for _, v := range t.Values {
		if v > 0 && !math.IsInf(v, 0) {
			digits = append(digits, decimals(v))
		}
	}

	if len(digits) == 0 {
		return 0
	}

	slices.Sort(digits)
	most := digits[len(digits)*95/100]
	if most > 10 {
		return 0
	}
	return math.Pow(10, -float64(most))
}

// decimals returns how many digits after the decimal point v needs.
func decimals(v float64) int {
	digits, exponent, _ := strings.Cut(strconv.FormatFloat(v, 'e', -1, 64), "e")
	shift, _ := strconv.Atoi(exponent)
	_, fraction, _ := strings.Cut(digits, ".")
	return len(fraction) - shift
}

// resolution reports values that were rounded to a step near their own size.
func (t *Table) resolution() []string {
	positive := known(t.Values)
	for len(positive) > 0 && positive[0] <= 0 {
		positive = positive[1:]
	}

	if len(positive) < enoughRows {
		return nil
	}

	if positive[0] == positive[len(positive)-1] {
		return []string{fmt.Sprintf("all %d values of %s are %s", len(positive), t.Metric, number(positive[0]))}
	}

	step, short := t.quantum(), rank(positive, 0.05)
	if step > coarse*short {
		return []string{fmt.Sprintf("%s is rounded to multiples of %s, and 5 %% of the rows are at most %s",
			t.Metric, number(step), number(short))}
	}

	return nil
}
