package collect

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
)

// sampleEntries are entries of all shapes. Both readers must return what encode wrote.
func sampleEntries() []*entry {
	return []*entry{
		{Rows: []worker.Row{{"latency": json.Number("1.5"), "samples": json.Number("3"), "used_cuda_graph": true, "kernel_source": "k"}}, Attempts: 1, Worker: "w0", At: "2026-11-22T04:30:46.4Z", Seconds: 0.0000809, Points: 1},
		{Rows: []worker.Row{{"latency": json.Number("2e-3")}, {"latency": json.Number("7"), "throttled": false}}, Attempts: 2, Worker: "w1", DeviceUUID: "GPU-1"},
		{Rows: []worker.Row{{"latency": json.Number("3"), "note": `a "quoted" \ <text> ü`, "n": json.Number("9007199254740993")}}, Attempts: 1, Worker: "w0"},
		{Rows: []worker.Row{{"latency": json.Number("4"), "n": json.Number("1"), "plain": "x", "flag": true}}, Attempts: 1, Label: &label{"F", "1", "D"}},
		{Rows: []worker.Row{{"latency": json.Number("5")}}, Attempts: 1, At: "x"},
		{Rows: []worker.Row{{"latency": json.Number("6")}}, Attempts: 1, First: true},
	}
}

func TestEncodeIsJSON(t *testing.T) {
	for i, e := range sampleEntries() {
		payload, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		back, err := decodeEntry(checkpoint.Entry{Kind: kindOf(e), Payload: payload})
		if err != nil {
			t.Fatalf("%d: %v: %s", i, err, payload)
		}
		if d := cmp.Diff(e, back); d != "" {
			t.Errorf("%d: %s\n%s", i, d, payload)
		}
	}
}

// TestEncodeKeepsEveryField encodes and decodes an entry for each field of the type, including fields
// that are added later.
func TestEncodeKeepsEveryField(t *testing.T) {
	for i := range reflect.TypeFor[entry]().NumField() {
		e := &entry{Rows: []worker.Row{{"latency": json.Number("1")}}}
		f := reflect.ValueOf(e).Elem().Field(i)
		switch f.Kind() {
		case reflect.Bool:
			f.SetBool(true)
		case reflect.String:
			f.SetString("x")
		case reflect.Int:
			f.SetInt(3)
		case reflect.Float64:
			f.SetFloat(0.5)
		case reflect.Pointer:
			f.Set(reflect.New(f.Type().Elem()))
		case reflect.Slice:
			if f.IsNil() {
				f.Set(reflect.MakeSlice(f.Type(), 1, 1))
			}
		default:
			t.Fatalf("a field of kind %v", f.Kind())
		}
		payload, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		want, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if err := errors.Join(json.Unmarshal(payload, &a), json.Unmarshal(want, &b)); err != nil {
			t.Fatalf("%v: %s", err, payload)
		}
		if d := cmp.Diff(b, a); d != "" {
			t.Errorf("%s: %s", reflect.TypeFor[entry]().Field(i).Name, d)
		}
	}
}

// TestRowStoreReadsWhatItIsGiven checks that new rows and rows from the journal give the same table.
func TestRowStoreReadsWhatItIsGiven(t *testing.T) {
	arrived, back := newRowStore(schemaOf("", true)), newRowStore(schemaOf("", true))
	quick := 0
	for _, e := range sampleEntries() {
		first, n := arrived.add(e)
		if first != arrived.n-n || n != len(e.Rows) {
			t.Errorf("rows %d, %d", first, n)
		}
		payload, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, _, ok := back.read(payload); ok {
			quick++
			continue
		}
		d, err := decodeEntry(checkpoint.Entry{Kind: kindOf(e), Payload: payload})
		if err != nil {
			t.Fatal(err)
		}
		back.add(d)
	}
	if quick != 4 { // escapes and labels are decoded in full
		t.Errorf("%d of 6 were read the quick way", quick)
	}
	text := func(s *rowStore) []string {
		at := make([]int32, s.n)
		for i := range at {
			at[i] = int32(s.n - 1 - i) // any order
		}
		var out []string
		for _, m := range schemaOf("", true).fields {
			out = append(out, fmt.Sprint(m.name, " ", s.metric(at, m.name, m.kind)))
		}
		for _, name := range s.extras(at) {
			col, mixed := s.extra(at, name)
			out = append(out, fmt.Sprint(name, " ", mixed, " ", col))
		}
		for which := range 3 {
			out = append(out, fmt.Sprint(s.label(at, which, "-")))
		}
		out = append(out, fmt.Sprint(s.texts(at, s.workers), s.texts(at, s.uuids), s.attempts))
		for _, r := range at {
			out = append(out, string(s.at.append(nil, int(r))))
		}
		return out
	}
	if d := cmp.Diff(text(arrived), text(back)); d != "" {
		t.Error(d)
	}
	if got := arrived.extras([]int32{0, 1}); len(got) != 0 {
		t.Errorf("columns of rows that do not count: %q", got)
	}
	if col, _ := arrived.extra([]int32{4, 5}, "n"); col.Len() != 2 || col.NullN() != 1 {
		t.Errorf("%v", col)
	}
}

// TestQuickReadTakesNothingElse checks that read rejects formats that encode does not write.
func TestQuickReadTakesNothingElse(t *testing.T) {
	whole := `{"rows":[{"latency":1.5}],"attempts":1,"worker":"w0"}`
	if s := newRowStore(schemaOf("", true)); func() bool { _, _, ok := s.read([]byte(whole)); return !ok || s.n != 1 }() {
		t.Fatal("the quick way does not read what encode writes")
	}
	var bad []string
	for i := range whole {
		bad = append(bad, whole[:i])
	}
	bad = append(bad, whole+" ", whole+"{}", `{"rows":[],"attempts":1}`, `{"rows":[{}]}`, `{"rows":[{"a":[1]}],"attempts":1}`, `{"rows":[{"a":1}],"attempts":"1"}`, `{"rows":[{"a":1}],"label":{}}`, `{"rows": [{"a":1}]}`, "\x00")
	for _, text := range bad {
		s := newRowStore(schemaOf("", true))
		if _, _, ok := s.read([]byte(text)); ok || s.n != 0 {
			t.Errorf("read %q", text)
		}
	}
	if slices.Contains(bad, whole) {
		t.Error("the test is wrong")
	}
}
