package tree

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/sink/base/fileutil"
	"aicplan/sink/catalog"
	"aicplan/sink/table"
)

// Answer is whether an op, or a whole model, is covered.
type Answer string

// The answers, from best to worst.
const (
	Yes          Answer = "yes"          // rows of exactly these sizes
	Interpolated Answer = "interpolated" // sizes between rows
	No           Answer = "no"
	CannotSplit  Answer = "cannot split" // the model does not divide that way
)

// Cell is one model at one degree of parallelism in one release.
type Cell struct {
	Model   string   `json:"model"`
	System  string   `json:"system"`
	Backend string   `json:"backend"`
	Version string   `json:"version"`
	TP      int64    `json:"tp"`
	Answer  Answer   `json:"answer"`
	Missing []string `json:"missing,omitempty"` // ops without rows, or why it does not divide
	// Older lists tables for which an earlier version of the backend is used.
	Older []string `json:"older,omitempty"`
}

// Matrix is all cells, models in the order given.
type Matrix struct {
	Models []string `json:"models"`
	Cells  []Cell   `json:"cells"`
}

// release is one column: a backend's version on a system.
type release struct {
	system, backend, version string
	files                    map[string]Entry // by table
	loaded                   map[string]arrow.Record
	root                     string
}

// Build works out the matrix of models over the tree below root.
func BuildMatrix(root string, models []MatrixModel) (*Matrix, error) {
	scan, err := Walk(root)
	if err != nil {
		return nil, err
	}
	slots := &Slots{}
	data, err := fileutil.ReadText(filepath.Join(root, SlotsFile))
	if err == nil {
		slots, err = ParseSlots(data)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", filepath.Join(root, SlotsFile), err)
	}
	releases := releasesOf(scan, slots)
	if len(releases) == 0 {
		return nil, fmt.Errorf(
			"%s contains no database: tables are in data/SYSTEM/BACKEND/VERSION or data/SYSTEM/FAMILY/BACKEND/VERSION, as an "+
				"export with layout = \"systems\" or \"families\" writes them",
			root,
		)
	}

	m := &Matrix{}
	for _, model := range models {
		m.Models = append(m.Models, model.Name)

		degrees := slices.Sorted(slices.Values(model.TP))
		if len(degrees) == 0 {
			degrees = []int64{1, 2, 4, 8}
		}

		for _, r := range releases {
			for _, tp := range degrees {
				cell, err := r.cell(model, tp)
				if err != nil {
					return nil, err
				}
				m.Cells = append(m.Cells, cell)
			}
		}
	}

	return m, nil
}

// releasesOf lists the columns: the version of every backend of every system that readers take, which is the current
// one of its slot, or else the newest. A table that it lacks is taken from the nearest earlier version of the backend,
// as readers do, except below comm.
func releasesOf(scan *Scan, slots *Slots) []*release {
	type place struct{ system, backend, version string }
	there := map[place]bool{}
	for _, e := range scan.Entries {
		there[place{e.System, e.Backend, e.Version}] = true
	}
	entries := slices.DeleteFunc(slices.Clone(scan.Entries), func(e Entry) bool {
		slot, _ := slots.of(e.System, e.Backend)
		return there[place{e.System, e.Backend, slot.Current}] && CompareVersions(e.Version, slot.Current) > 0
	})
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.System, b.System), cmp.Compare(a.Backend, b.Backend),
			CompareVersions(b.Version, a.Version))
	})

	var out []*release
	for _, e := range entries {
		if e.Backend == "" || catalog.IsLibrary(e.Backend) {
			continue
		}

		if n := len(out); n == 0 || out[n-1].system != e.System || out[n-1].backend != e.Backend {
			out = append(out, &release{system: e.System, backend: e.Backend, version: e.Version, root: scan.Root,
				files: map[string]Entry{}, loaded: map[string]arrow.Record{}})
		}

		r := out[len(out)-1]
		_, newer := r.files[e.Table]
		if !newer && (e.Family != "comm" || CompareVersions(e.Version, r.version) == 0) {
			r.files[e.Table] = e
		}
	}

	return out
}

func (r *release) cell(m MatrixModel, tp int64) (Cell, error) {
	c := Cell{Model: m.Name, System: r.system, Backend: r.backend, Version: r.version, TP: tp, Answer: Yes}
	needs, err := m.needs(tp)
	if err != nil {
		c.Answer, c.Missing = CannotSplit, []string{err.Error()}
		return c, nil
	}

	for _, n := range needs {
		answer, used, err := r.answer(n)
		if err != nil {
			return c, err
		}

		switch {
		case answer == No:
			c.Missing = append(c.Missing, n.String())
		case answer == Interpolated && c.Answer == Yes:
			c.Answer = Interpolated
		}

		if e, ok := r.files[used]; ok && e.Version != r.version {
			if s := used + " of " + e.Version; !slices.Contains(c.Older, s) {
				c.Older = append(c.Older, s)
			}
		}
	}

	if len(c.Missing) > 0 {
		c.Answer = No
	}

	return c, nil
}

// answer looks one need up in the first of its tables that has it.
func (r *release) answer(n need) (Answer, string, error) {
	best, used := No, ""
	for _, name := range n.tables {
		rec, err := r.load(name)
		if err != nil {
			return No, "", err
		}
		if rec == nil {
			continue
		}
		if a := n.in(rec); a == Yes || a == Interpolated && best == No {
			best, used = a, name
		}
		if best == Yes {
			break
		}
	}

	return best, used, nil
}

func (r *release) load(name string) (arrow.Record, error) {
	if rec, ok := r.loaded[name]; ok {
		return rec, nil
	}
	e, ok := r.files[name]
	if !ok {
		return nil, nil
	}
	rec, err := ReadFile(filepath.Join(r.root, e.Path))
	if err != nil {
		return nil, err
	}
	r.loaded[name] = rec
	return rec, nil
}

// in answers a need from one table.
func (n need) in(rec arrow.Record) Answer {
	lacking := false
	var fits []func(row int) bool
	ints := func(name string) []int64 {
		_, optional := Defaults[name]
		if optional && !table.Has(rec, name) {
			return make([]int64, rec.NumRows())
		}
		c, err := table.Int64s(rec, name)
		if err != nil {
			lacking = true
			return nil
		}
		if !optional {
			fits = append(fits, func(row int) bool { return !c.Null(row) })
		}
		return c.Values
	}

	for name, want := range n.any {
		c, err := table.Strings(rec, name)
		if err != nil {
			return No
		}
		fits = append(fits, func(row int) bool { return slices.Contains(want, c.Values[row]) })
	}

	for name, want := range n.exact {
		values := ints(name)
		fits = append(fits, func(row int) bool { return values[row] == want })
	}

	if n.mha {
		kv, heads := ints("num_key_value_heads"), ints("num_heads")
		fits = append(fits, func(row int) bool { return kv[row] == 0 || kv[row] == heads[row] })
	}

	if n.ranks > 0 {
		tp, ep := ints("moe_tp_size"), ints("moe_ep_size")
		fits = append(fits, func(row int) bool { return tp[row]*ep[row] == n.ranks })
	}

	within := map[string][]int64{}
	for name := range n.within {
		within[name] = ints(name)
	}

	if lacking {
		return No
	}

	low, high := map[string]bool{}, map[string]bool{}
	answer := No
	for row := range table.Len(rec) {
		if slices.ContainsFunc(fits, func(fit func(int) bool) bool { return !fit(row) }) {
			continue
		}

		answer = Interpolated
		all := true
		for name, want := range n.within {
			v := within[name][row]
			low[name] = low[name] || v <= want
			high[name] = high[name] || v >= want
			all = all && v == want
		}

		if all {
			return Yes
		}
	}

	for name := range n.within {
		if !low[name] || !high[name] {
			return No
		}
	}

	return answer
}
