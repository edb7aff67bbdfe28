package collect

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"pgregory.net/rapid"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// triesByRow is what ReadTries is held against: every try as Past tells it, made a
// row of a table.
func triesByRow(store *checkpoint.Store, d *stage.Dataset) (arrow.Record, int, error) {
	names, err := table.Strings(d.Table, "case_id")
	if err != nil {
		return nil, 0, err
	}
	rowOf := map[string]int{}
	for row, id := range names.Values {
		rowOf[id] = row
	}
	told, err := pastOf(store, d.Info.Op, names.Values...)
	if err != nil {
		return nil, 0, err
	}
	count, several := map[string]int{}, map[string]bool{}
	b := table.NewBuilder()
	for _, x := range told {
		if len(x.Rows) > 1 {
			several[x.CaseID] = true
		}
		if len(x.Rows) != 1 {
			continue
		}
		count[x.CaseID]++
		row := map[string]any{}
		maps.Copy(row, x.Rows[0])
		for _, p := range d.Info.Params {
			if at := table.Index(d.Table, p); at >= 0 {
				row[p] = table.Value(d.Table, at, rowOf[x.CaseID])
			}
		}
		var conditions checkpoint.Context
		if err := json.Unmarshal(x.Conditions, &conditions); err != nil {
			return nil, 0, err
		}
		for field, v := range conditions.Env {
			row[field] = v
		}
		maps.Copy(row, map[string]any{"case_id": x.CaseID, "try": int64(count[x.CaseID]), "at": x.At, "framework": x.Framework, "version": x.Version, "device": x.Device, "worker": x.Worker})
		if x.DeviceUUID != "" {
			row["device_uuid"] = x.DeviceUUID
		}
		if err := b.Append(row); err != nil {
			return nil, 0, err
		}
	}
	if b.Len() == 0 {
		return nil, len(several), nil
	}
	return b.Record(), len(several), nil
}

// pastOf is all tries of some cases in the order of time. Those of each case alone
// must be the same ones.
func pastOf(store *checkpoint.Store, op string, ids ...string) ([]Told, error) {
	past, err := FindPast(store, op, ids)
	if err != nil {
		return nil, err
	}
	var all []Told
	by := map[string][]Told{}
	for t, err := range past.All() {
		if err != nil {
			return nil, err
		}
		all = append(all, t)
		by[t.CaseID] = append(by[t.CaseID], t)
	}
	for _, id := range ids {
		if own, err := past.Of(id); err != nil || !reflect.DeepEqual(own, by[id]) {
			return nil, fmt.Errorf("of the tries of %s there are %d in all and %d of it alone, %v", id, len(by[id]), len(own), err)
		}
	}
	return all, nil
}

// triedStore is a state folder with some journals of the op x.
func triedStore(t *rapid.T, dir string) *checkpoint.Store {
	store, err := checkpoint.Open(dir, checkpoint.Options{Valid: ValidEntry})
	if err != nil {
		t.Fatal(err)
	}
	text := rapid.SampledFrom([]string{"", "a", "b", "ü", "a \"b\"\n", "7"})
	number := rapid.SampledFrom([]json.Number{"1", "2", "-0", "0.25", "1e-3", "9007199254740992"})
	usual := rapid.OneOf(rapid.Map(number, func(n json.Number) any { return n }), rapid.Just[any](nil))
	odd := rapid.SampledFrom([]any{json.Number("1e999"), json.Number("9007199254740993"), json.Number("99999999999999999999"), true, "word", []any{json.Number("1")}, nil})
	// Most stores have columns of one type each; in some a column has several.
	oneIn := rapid.SampledFrom([]int{0, 0, 0, 12}).Draw(t, "odd")
	someText := rapid.Map(text, func(s string) any { return s })
	value := func(name string) any {
		if oneIn > 0 && rapid.IntRange(0, oneIn).Draw(t, "is odd") == 0 {
			return odd.Draw(t, name)
		}
		switch name {
		case "flag":
			return rapid.SampledFrom([]any{true, false, nil}).Draw(t, name)
		case "kernel_source", "device_uuid", "p", "stack":
			return someText.Draw(t, name)
		}
		return usual.Draw(t, name)
	}
	columns := []string{"latency", "rel_stdev", "kernel_source", "flag", "device_uuid", "q", "version", "try", "at", "case_id", "worker", "p"}
	for i := range rapid.IntRange(1, 3).Draw(t, "journals") {
		c := checkpoint.Context{Op: "x", Runtime: "cpu", Framework: "F", Version: fmt.Sprint(i), Device: text.Draw(t, "device")}
		if rapid.Bool().Draw(t, "environment") {
			c.Env = map[string]string{rapid.SampledFrom([]string{"hostname", "p", "kernel_source", "version", "stack"}).Draw(t, "field"): text.Draw(t, "value")}
		}
		j, err := store.Journal(c)
		if err != nil {
			t.Fatal(err)
		}
		var entries []checkpoint.Entry
		for range rapid.IntRange(0, 8).Draw(t, "entries") {
			e := entry{Attempts: 1, Worker: text.Draw(t, "worker"), DeviceUUID: text.Draw(t, "uuid"), Seconds: 0.5}
			e.At = rapid.SampledFrom([]string{"", "x", "2026-11-22T10:00:05Z", "2026-11-22T10:00:05.12Z", "2026-11-22T10:00:05.123Z", "2026-11-22T11:00:06+01:00"}).Draw(t, "at")
			if rapid.IntRange(0, 5).Draw(t, "label") == 0 {
				e.Label = &label{text.Draw(t, "framework"), "9", "D"}
			}
			kind := checkpoint.Measured
			if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
				kind, e.Failure = checkpoint.Failed, &worker.Failure{Class: "x", Message: text.Draw(t, "message")}
			}
			for range rapid.SampledFrom([]int{1, 1, 1, 1, 2}).Draw(t, "rows") {
				if e.Failure != nil {
					break
				}
				row := worker.Row{}
				for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(columns), 1, 6, rapid.ID).Draw(t, "columns") {
					row[name] = value(name)
				}
				e.Rows = append(e.Rows, row)
			}
			payload, err := e.encode()
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, checkpoint.Entry{ID: rapid.SampledFrom([]string{"A", "B", "C", "other"}).Draw(t, "case"), Kind: kind, Payload: payload})
		}
		if err := j.AppendAll(entries); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

// TestReadTries: read by columns the tries are what they are row by row, with the
// same columns in the same order, or the same error; and some of the columns are
// what all would have been.
func TestReadTries(t *testing.T) {
	t.Parallel()
	d := &stage.Dataset{
		Info: stage.Info{Op: "x", Params: []string{"p", "m", "nowhere", "empty"}},
		Table: table.NewRecord([]string{"case_id", "p", "m", "empty"}, []arrow.Array{
			table.Texts([]string{"A", "B", "C", "never"}, nil), table.Texts([]string{"x", "", "z", "z"}, []bool{true, false, true, true}),
			table.Ints([]int64{1, 2, 3, 4}, nil), table.Nulls(table.Int64, 4)}),
	}
	dir := t.TempDir()
	tables, errors := 0, 0
	check := func(t *rapid.T) {
		at, err := os.MkdirTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		store := triedStore(t, at)
		defer store.Close()
		want, several, wantErr := triesByRow(store, d)
		got, err := ReadTries(store, d, nil)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("error %v, want %v", err, wantErr)
		}
		some := rapid.SliceOfDistinct(rapid.SampledFrom([]string{"latency", "p", "m", "try", "at", "device_uuid", "hostname", "kernel_source", "none"}), rapid.ID).Draw(t, "some")
		some = append(some, "case_id")
		part, err := ReadTries(store, d, some)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("error %v of some columns, want %v", err, wantErr)
		}
		if wantErr != nil {
			errors++
			return
		}
		if got.Several != several || part.Several != several {
			t.Fatalf("%d and %d cases have several rows, want %d", got.Several, part.Several, several)
		}
		if want == nil {
			if got.Table != nil || part.Table != nil {
				t.Fatal("there are tries of cases that were not measured")
			}
			return
		}
		tables++
		if diff := table.Diff(want, got.Table); diff != "" {
			t.Fatalf("%s", diff)
		}
		for _, tries := range []*Tries{got, part} {
			for i, f := range tries.Schema.Fields() {
				if c := want.Schema().Field(i); c.Name != f.Name || table.TypeName(c.Type) != table.TypeName(f.Type) {
					t.Fatalf("the column %s is told as %s, want %s", c, f, c)
				}
			}
		}
		if n := len(want.Schema().Fields()); len(got.Schema.Fields()) != n || len(part.Schema.Fields()) != n {
			t.Fatalf("%d and %d columns, want %d", len(got.Schema.Fields()), len(part.Schema.Fields()), n)
		}
		kept := slices.DeleteFunc(table.Names(want), func(name string) bool { return !slices.Contains(some, name) })
		if want, err = table.Select(want, kept...); err != nil {
			t.Fatal(err)
		}
		if diff := table.Diff(want, part.Table); diff != "" {
			t.Fatalf("columns %s: %s", strings.Join(kept, ", "), diff)
		}
	}
	// A store that cannot be read is rare: with -short, which draws a fifth as many,
	// one round in three has none.
	for range 30 {
		if rapid.Check(t, check); tables >= 10 && errors > 0 || t.Failed() {
			return
		}
	}
	t.Errorf("%d tables and %d errors were compared", tables, errors)
}

// TestTriesInTheOrderOfTime: tries are numbered by when they were measured, not by
// how that is written.
func TestTriesInTheOrderOfTime(t *testing.T) {
	t.Parallel()
	store, err := checkpoint.Open(t.TempDir(), checkpoint.Options{Valid: ValidEntry})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	j, err := store.Journal(checkpoint.Context{Op: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range []string{"2026-11-22T10:00:05.123Z", "2026-11-22T10:00:05.12Z", "2026-11-22T11:00:04+01:00", ""} {
		payload := fmt.Sprintf(`{"rows":[{"latency":%d}],"attempts":1,"at":%q}`, i, at)
		if err := j.Append(checkpoint.Entry{ID: "A", Kind: checkpoint.Measured, Payload: []byte(payload)}); err != nil {
			t.Fatal(err)
		}
	}
	d := &stage.Dataset{Info: stage.Info{Op: "x"}, Table: table.NewRecord([]string{"case_id"}, []arrow.Array{table.Constant("A", 1)})}
	tries, err := ReadTries(store, d, []string{"latency"})
	if err != nil {
		t.Fatal(err)
	}
	told, err := pastOf(store, "x", "A")
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int64{3, 2, 1, 0} {
		if got := table.Value(tries.Table, 0, i); got != want {
			t.Errorf("try %d is that of %v, want %d", i+1, got, want)
		}
		if got := told[i].Rows[0]["latency"]; got != json.Number(fmt.Sprint(want)) {
			t.Errorf("history: try %d is that of %v, want %d", i+1, got, want)
		}
	}
}

// BenchmarkReadTries reads two tries of each of 10,000 cases.
func BenchmarkReadTries(b *testing.B) {
	store, err := checkpoint.Open(b.TempDir(), checkpoint.Options{Valid: ValidEntry})
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	j, err := store.Journal(checkpoint.Context{Op: "x", Framework: "F", Version: "1", Device: "D"})
	if err != nil {
		b.Fatal(err)
	}
	const cases = 10_000
	ids, sizes := make([]string, cases), make([]int64, cases)
	var entries []checkpoint.Entry
	for i := range 2 * cases {
		ids[i%cases], sizes[i%cases] = fmt.Sprintf("%032x", i%cases), int64(i%cases)
		payload, err := sampleEntries()[0].encode()
		if err != nil {
			b.Fatal(err)
		}
		entries = append(entries, checkpoint.Entry{ID: ids[i%cases], Kind: checkpoint.Measured, Payload: payload})
	}
	if err := j.AppendAll(entries); err != nil {
		b.Fatal(err)
	}
	d := &stage.Dataset{Info: stage.Info{Op: "x", Params: []string{"m"}}, Table: table.NewRecord([]string{"case_id", "m"}, []arrow.Array{table.Texts(ids, nil), table.Ints(sizes, nil)})}
	b.ReportAllocs()
	for b.Loop() {
		tries, err := ReadTries(store, d, []string{"case_id", "m", "try", "latency"})
		if err != nil || tries.Table.NumRows() != 2*cases {
			b.Fatal(tries, err)
		}
	}
}
