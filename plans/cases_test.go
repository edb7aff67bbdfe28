package plans_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"aicplan/engine/grid"
	"aicplan/sink/base/testutil"
)

var update = flag.Bool("update", false, "record the sets that the plans come to, after a wanted change")

// expected is what a backend's ops must come to. The figures were made by a
// second, independent expansion of the backends' rules; TensorRT-LLM's are those
// of the complete lists of its cases.
type expected struct {
	DeviceMemory int64                 `json:"device_memory"`
	Ops          map[string]expectedOp `json:"ops"`
}

type expectedOp struct {
	Columns []string                  `json:"columns"`
	Sweep   []string                  `json:"sweep,omitempty"`
	SM      map[string]expectedCases  `json:"sm"`
	Values  map[string]map[string]int `json:"values"` // on SM 90: cases by column and value
}

type expectedCases struct {
	Cases        int      `json:"cases"`
	Digest       string   `json:"digest,omitempty"`  // of the sorted lines
	Without      []string `json:"without,omitempty"` // columns that the digest leaves out
	Points       int      `json:"points,omitempty"`
	PointsDigest string   `json:"points_digest,omitempty"`
}

func readExpected(t *testing.T, backend string) expected {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", backend+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var e expected
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&e); err != nil {
		t.Fatal(err)
	}
	return e
}

func digest(lines []string) string {
	slices.Sort(lines)
	sum := sha256.New()
	for i, line := range lines {
		if i > 0 {
			sum.Write([]byte{'\n'})
		}
		io.WriteString(sum, line)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// TestCases compares the three plans with the expected sets on five generations of GPUs. The memory of the device is
// that of the reference, so that only the SM version differs. make test runs SM 90 of all three, and another
// generation of one.
func TestCases(t *testing.T) {
	t.Parallel()
	totals := map[string][2]int{"trtllm": {24, 315142}, "vllm": {23, 316965}, "sglang": {28, 348202}}
	for _, backend := range backends {
		want := readExpected(t, backend)
		if *update {
			record(t, backend, want)
			continue
		}
		for sm, system := range systemOf {
			if sm != 90 && (sm != 120 || backend != "trtllm") && !testutil.All() {
				continue
			}
			t.Run(fmt.Sprintf("%s/sm%d", backend, sm), func(t *testing.T) {
				t.Parallel()
				got := casesOf(t, planOf(backend), variables(backend, system, want)...)
				total := 0
				for op, w := range want.Ops {
					c := got[op]
					if c == nil {
						t.Errorf("%s: no grid", op)
						continue
					}
					total += c.Len()
					compareOp(t, backend, op, c, w, sm)
				}
				for op := range got {
					if _, ok := want.Ops[op]; !ok {
						t.Errorf("%s: not an op of %s", op, backend)
					}
				}
				if w := totals[backend]; sm == 90 && (len(got) != w[0] || total != w[1]) {
					t.Errorf("%d ops with %d cases, want %d with %d", len(got), total, w[0], w[1])
				}
			})
		}
	}
}

func variables(backend, system string, e expected) []string {
	vars := []string{"system=" + system}
	if backend != "trtllm" { // whose grids do not look at memory
		vars = append(vars, fmt.Sprintf("device_memory=%d", e.DeviceMemory))
	}
	return vars
}

// record writes what the plans come to.
func record(t *testing.T, backend string, old expected) {
	t.Helper()
	e := expected{DeviceMemory: old.DeviceMemory, Ops: map[string]expectedOp{}}
	for sm, system := range systemOf {
		for op, c := range casesOf(t, planOf(backend), variables(backend, system, old)...) {
			w := e.Ops[op]
			if w.SM == nil {
				w = expectedOp{Columns: c.Columns(), Sweep: c.SweepColumns(), SM: map[string]expectedCases{}}
			}
			x := expectedCases{Cases: c.Len(), Without: old.Ops[op].SM[fmt.Sprint(sm)].Without}
			if c.Len() > 0 {
				x.Digest = digest(lines(c, c.Columns(), x.Without))
			}
			if c.SweepColumns() != nil && c.Len() > 0 {
				x.Points = c.Rows()
			}
			if sm == 90 {
				w.Values = valuesOf(c)
				if c.SweepColumns() != nil {
					x.PointsDigest = digest(pointLines(c, c.Columns()))
				}
			}
			w.SM[fmt.Sprint(sm)] = x
			e.Ops[op] = w
		}
	}
	raw, err := json.MarshalIndent(e, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	// One line for a list or a column keeps the file, and its changes, readable.
	flat := regexp.MustCompile(`\{[^{}]*\}|\[[^\[\]]*\]`).ReplaceAllFunc(raw, func(b []byte) []byte {
		return regexp.MustCompile(`\s*\n\s*`).ReplaceAll(b, nil)
	})
	if err := os.WriteFile(filepath.Join("testdata", backend+".json"), append(flat, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}

// valuesOf counts how often each column has each value.
func valuesOf(c *grid.Cases) map[string]map[string]int {
	out := map[string]map[string]int{}
	for col, name := range c.Columns() {
		n := map[string]int{}
		for i := range c.Len() {
			n[cell(c.Value(i, col))]++
		}
		out[name] = n
	}
	return out
}

func compareOp(t *testing.T, backend, op string, c *grid.Cases, w expectedOp, sm int) {
	t.Helper()
	e, ok := w.SM[fmt.Sprint(sm)]
	if !ok {
		t.Fatalf("%s: nothing is expected for SM %d", op, sm)
	}
	if !slices.Equal(c.Columns(), w.Columns) {
		t.Errorf("%s: columns %v, want %v", op, c.Columns(), w.Columns)
		return
	}
	if c.Len() != e.Cases {
		t.Errorf("%s: %d cases, want %d", op, c.Len(), e.Cases)
	}
	if e.Cases > 0 {
		if got := lines(c, w.Columns, e.Without); digest(got) != e.Digest {
			t.Errorf("%s: another set of cases\n%s", op, explain(backend, op, got, c, w, sm))
		}
	}
	if e.Points > 0 && c.Rows() != e.Points {
		t.Errorf("%s: %d sweep points, want %d", op, c.Rows(), e.Points)
	}
	if e.PointsDigest != "" {
		if !slices.Equal(c.SweepColumns(), w.Sweep) {
			t.Errorf("%s: sweeps %v, want %v", op, c.SweepColumns(), w.Sweep)
		} else if digest(pointLines(c, w.Columns)) != e.PointsDigest {
			t.Errorf("%s: other sweep points", op)
		}
	}
}

// explain describes how a set differs: case by case if the folder of AICPLAN_CASE_LISTS has <backend>/<op>.csv or
// .csv.gz, otherwise by values of columns.
func explain(backend, op string, got []string, c *grid.Cases, w expectedOp, sm int) string {
	if sm != 90 {
		return "see the same op on SM 90"
	}
	if list := readList(os.Getenv("AICPLAN_CASE_LISTS"), backend, op); list != nil {
		return diffLines(got, list)
	}
	var b strings.Builder
	values := valuesOf(c)
	for _, name := range w.Columns {
		have := values[name]
		for _, v := range union(have, w.Values[name]) {
			if have[v] != w.Values[name][v] {
				fmt.Fprintf(&b, "  %s = %s: %d cases, want %d\n", name, v, have[v], w.Values[name][v])
			}
		}
	}
	if b.Len() == 0 {
		return "  every value occurs as often as it should; set AICPLAN_CASE_LISTS to compare case by case"
	}
	return b.String()
}

func union(a, b map[string]int) []string {
	var keys []string
	for k := range a {
		keys = append(keys, k)
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(x, y string) int {
		if len(x) != len(y) {
			return len(x) - len(y)
		}
		return strings.Compare(x, y)
	})
	return keys
}

// readList reads a list of cases without its header; nil when there is none.
func readList(dir, backend, op string) []string {
	if dir == "" {
		return nil
	}
	names, _ := filepath.Glob(filepath.Join(dir, backend, op+".csv*"))
	if len(names) == 0 {
		return nil
	}
	src, err := os.ReadFile(names[0])
	for err == nil && bytes.HasPrefix(src, []byte{0x1f, 0x8b}) {
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(src)); err == nil {
			src, err = io.ReadAll(z)
		}
	}
	if err != nil {
		return nil
	}
	var out []string
	for s := bufio.NewScanner(bytes.NewReader(src)); s.Scan(); {
		out = append(out, s.Text())
	}
	return out[1:]
}

func diffLines(got, want []string) string {
	have, need := map[string]bool{}, map[string]bool{}
	for _, l := range got {
		have[l] = true
	}
	for _, l := range want {
		need[l] = true
	}
	var extra, missing []string
	for l := range have {
		if !need[l] {
			extra = append(extra, l)
		}
	}
	for l := range need {
		if !have[l] {
			missing = append(missing, l)
		}
	}
	slices.Sort(extra)
	slices.Sort(missing)
	show := func(sign string, list []string) string {
		out := ""
		for _, l := range list[:min(10, len(list))] {
			out += "  " + sign + " " + l + "\n"
		}
		if n := len(list) - 10; n > 0 {
			out += fmt.Sprintf("  %s and %d more\n", sign, n)
		}
		return out
	}
	return show("+", extra) + show("-", missing)
}

// TestCasesEqualCompleteLists compares with complete lists if AICPLAN_CASE_LISTS names
// a folder that has them.
func TestCasesEqualCompleteLists(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("AICPLAN_CASE_LISTS")
	if dir == "" {
		t.Skip("AICPLAN_CASE_LISTS names no folder with <backend>/<op>.csv.gz")
	}
	for _, backend := range backends {
		var got map[string]*grid.Cases
		for op, w := range readExpected(t, backend).Ops {
			list := readList(dir, backend, op)
			if list == nil {
				continue
			}
			if got == nil {
				got = casesOf(t, planOf(backend))
			}
			have := lines(got[op], w.Columns, nil)
			slices.Sort(have)
			slices.Sort(list)
			if !slices.Equal(have, list) {
				t.Errorf("%s %s:\n%s", backend, op, diffLines(have, list))
			}
		}
	}
}

// TestCasesOfNewestCasePlans compares the plans with what the collectors list for the case plans of
// aisimulate 0.13: the cases of each op, and those of each model if the cases name it.
// testdata/case_plans.py made the lists. make test compares one backend.
func TestCasesOfNewestCasePlans(t *testing.T) {
	t.Parallel()

	src, err := os.ReadFile("testdata/aisimulate-0.13.json")
	if err != nil {
		t.Fatal(err)
	}

	var want map[string]map[string]struct {
		Cases  int
		Models map[string]int
	}
	if err := json.Unmarshal(src, &want); err != nil {
		t.Fatal(err)
	}

	for _, backend := range backends[:testutil.Rounds(1, len(backends))] {
		t.Run(backend, func(t *testing.T) {
			t.Parallel()

			vars := append(variables(backend, "h200_sxm", readExpected(t, backend)), "cases=aisimulate-0.13")
			got := casesOf(t, planOf(backend), vars...)
			for op, w := range want[backend] {
				c := got[op]
				if c == nil || c.Len() != w.Cases {
					t.Errorf("%s: %d cases, want %d", op, c.Len(), w.Cases)
					continue
				}
				if w.Models == nil {
					continue
				}

				values := valuesOf(c)
				models := values["model"]
				if models == nil {
					models = values["model_name"]
				}
				if !maps.Equal(models, w.Models) {
					t.Errorf("%s: cases by model are %v, want %v", op, models, w.Models)
				}
			}
			if len(got) != len(want[backend]) {
				t.Errorf("%d ops, want %d", len(got), len(want[backend]))
			}
		})
	}
}
