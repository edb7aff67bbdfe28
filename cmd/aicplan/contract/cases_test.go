package contract

import (
	"bufio"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// backendPlans are the plans of whole op databases, and systemsOfCases the
// systems whose case lists a normal run digests: every system has its counts
// checked, these have their parameters checked too.
var backendPlans = []string{"h200_trtllm", "h200_vllm", "h200_sglang"}

// listed are the systems of which a normal run reads lists: every twentieth, because
// plans/cases_test.go has all of them within the process. All others are read if
// AICPLAN_TEST_ALL is set, and counted by TestCountsOfOtherSystems otherwise.
var listed = map[string][]string{
	"h200_trtllm": {"h200_sxm"}, "h200_vllm": {"h200_sxm"}, "h200_sglang": {"h200_sxm"},
}

// counted are the systems, by plan, whose counts a normal run checks besides those of listed.
var counted = map[string]string{"h200_vllm": "l40s"}

const casesFile = "testdata/cases.csv"

// caseList is a line of the golden file.
type caseList struct{ plan, system, grid, cases, points, digest string }

func (c caseList) id() string { return c.plan + " " + c.system + " " + c.grid }

func readCaseLists(t *testing.T) map[string]caseList {
	t.Helper()
	f, err := os.Open(casesFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]caseList{}
	for _, l := range lines[1:] {
		c := caseList{l[0], l[1], l[2], l[3], l[4], l[5]}
		out[c.id()] = c
	}
	return out
}

func writeCaseLists(lists map[string]caseList) error {
	var ids []string
	for id := range lists {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var b strings.Builder
	w := csv.NewWriter(&b)
	w.Write([]string{"plan", "system", "grid", "cases", "points", "digest"})
	for _, id := range ids {
		c := lists[id]
		w.Write([]string{c.plan, c.system, c.grid, c.cases, c.points, c.digest})
	}
	w.Flush()
	return errors.Join(w.Error(), os.WriteFile(casesFile, []byte(b.String()), 0o644))
}

// systems are the names of the shipped specs.
func systems(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "systems", "*.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d systems, %v", len(files), err)
	}
	for i, f := range files {
		files[i] = strings.TrimSuffix(filepath.Base(f), ".yaml")
	}
	return files
}

// countsOf asks plan for the counts and the key of every grid. Both are by id.
func countsOf(t *testing.T, plan, system string) (map[string]caseList, map[string]string) {
	t.Helper()
	var p planned
	newFolder(t).json(&p, 0, "plan", "--json", "--var", "system="+system, filepath.Join(root, "plans", plan+".hcl"))
	out, keys := map[string]caseList{}, map[string]string{}
	for _, s := range p.Stages {
		if s.Kind != "grid" {
			continue
		}
		if s.Grid == nil || s.Key == "" {
			t.Fatalf("%s on %s: %s has no counts or no key", plan, system, s.Address)
		}
		c := caseList{plan, system, s.Address, fmt.Sprint(s.Grid.Cases), fmt.Sprint(s.Grid.Rows), ""}
		out[c.id()], keys[c.id()] = c, s.Key
	}
	if len(out) == 0 {
		t.Fatalf("%s on %s has no grids", plan, system)
	}
	return out, keys
}

// digests keeps the digest of each list. Grids with one address and one key have
// the same cases, so that the lists of systems that do not differ are read once.
type digests struct {
	mu   sync.Mutex
	read map[string]*list
}

type list struct {
	once   sync.Once
	points int
	digest string
}

func (d *digests) of(t *testing.T, c caseList, key string) (points int, digest string) {
	d.mu.Lock()
	id := c.plan + " " + c.grid + " " + key
	l := d.read[id]
	if l == nil {
		l = &list{}
		d.read[id] = l
	}
	d.mu.Unlock()

	l.once.Do(func() { l.points, l.digest = digestCases(t, c.plan, c.system, c.grid) })
	return l.points, l.digest
}

// digestCases is the SHA-256 of the sorted lines of a grid's parameters, with
// sweeps as one line a point. Ids are no part of it, and neither is the order of
// columns and lines.
func digestCases(t *testing.T, plan, system, address string) (points int, digest string) {
	t.Helper()
	r := newFolder(t).expect(0, "cases", "--points", "--var", "system="+system, filepath.Join(root, "plans",
		plan+".hcl"), address)
	in := csv.NewReader(bufio.NewReader(strings.NewReader(string(r.stdout))))
	in.ReuseRecord = true
	head, err := in.Read()
	if err != nil {
		t.Fatal(err)
	}
	head = slices.Clone(head)
	var order []int
	for i, name := range head {
		if name != "case_id" && name != "status" {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(head[a], head[b]) })

	var lines []string
	var b []byte
	for {
		rec, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b = b[:0]
		for _, i := range order {
			b = append(append(append(b, head[i]...), '='), rec[i]...)
			b = append(b, 0)
		}
		lines = append(lines, string(b))
	}
	slices.Sort(lines)
	if n := len(slices.Compact(slices.Clone(lines))); n != len(lines) {
		t.Errorf("%s on %s: %s has %d cases twice", plan, system, address, len(lines)-n)
	}
	sum := sha256.New()
	for _, l := range lines {
		io.WriteString(sum, l+"\n")
	}
	return len(lines), hex.EncodeToString(sum.Sum(nil)[:16])
}

// TestCaseLists compares the cases of every grid with the recorded lists. A
// normal run reads some lists of the H200; with AICPLAN_TEST_ALL=1 it reads all
// lists of all systems.
func TestCaseLists(t *testing.T) {
	t.Parallel()
	all := os.Getenv(allVariable) != ""
	if *update && !all {
		t.Skip("the lists of all systems are recorded with " + allVariable + "=1 only, as make golden does")
	}
	want := map[string]caseList{}
	if !*update {
		want = readCaseLists(t)
	}
	found := map[string]caseList{}
	var mu sync.Mutex
	lists := &digests{read: map[string]*list{}}
	t.Run("plans", func(t *testing.T) {
		for _, plan := range backendPlans {
			chosen := listed[plan]
			if all {
				chosen = systems(t)
			}
			for _, system := range chosen {
				t.Run(plan+"/"+system, func(t *testing.T) {
					t.Parallel()
					counted, keys := countsOf(t, plan, system)
					for i, id := range slices.Sorted(maps.Keys(counted)) {
						c := counted[id]
						t.Run(c.grid, func(t *testing.T) {
							t.Parallel()
							w := want[id]
							if all || i%20 == 0 {
								points, digest := lists.of(t, c, keys[id])
								if fmt.Sprint(points) != c.points {
									t.Errorf("%d points are printed, and plan counts %s", points, c.points)
								}
								c.digest = digest
							} else {
								w.digest = ""
							}
							mu.Lock()
							found[id] = c
							mu.Unlock()
							if !*update && c != w {
								t.Errorf("cases %s, points %s, digest %s; want %s, %s, %s", c.cases, c.points, c.digest, w.cases,
									w.points, w.digest)
							}
						})
					}
				})
			}
		}
	})
	if *update && !t.Failed() {
		if err := writeCaseLists(found); err != nil {
			t.Fatal(err)
		}
		return
	}
	for id, w := range want {
		if _, ok := found[id]; !ok && (all || slices.Contains(listed[w.plan], w.system)) {
			t.Errorf("%s is missing", id)
		}
	}
}

// TestCountsOfOtherSystems compares the counts of grids on another generation of
// GPUs for one backend. With AICPLAN_TEST_ALL, TestCaseLists does so on all systems.
func TestCountsOfOtherSystems(t *testing.T) {
	t.Parallel()
	if *update || os.Getenv(allVariable) != "" {
		t.Skip("TestCaseLists records and compares the counts")
	}
	want := readCaseLists(t)
	for plan, system := range counted {
		t.Run(plan+"/"+system, func(t *testing.T) {
			t.Parallel()
			got, _ := countsOf(t, plan, system)
			for id, w := range want {
				if w.plan != plan || w.system != system {
					continue
				}
				w.digest = ""
				if got[id] != w {
					t.Errorf("%s: %+v, want %+v", id, got[id], w)
				}
				delete(got, id)
			}
			for id := range got {
				t.Errorf("%s has no recorded list", id)
			}
		})
	}
}
