package worker

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

var cells = []any{
	nil, true, false, "", "synthetic", `quoted "text"`, "tab\tand\\", "Größe", "\x7f", "<html>&", 0, -7, int64(1) << 60,
	0.0, -0.5, 1e-7, 1e-6, 123456.789, 1e20, 1e21, math.MaxFloat64, json.Number("1e5"), json.Number("-0.0"), json.Number("12"),
	json.Number("01"), json.Number("1."), float32(2.5), []any{1.0}, map[string]any{"a": "b"},
}

func randomRow(r *rand.Rand) Row {
	row := Row{}
	for range r.IntN(7) {
		row[[]string{"latency", "p10", "kernel_source", `odd "name"`, "größe", "rows", "seq"}[r.IntN(7)]] = cells[r.IntN(len(cells))]
	}
	return row
}

// TestByHandAsByReflection: what is written by hand has the bytes that encoding/json
// writes, and what is read by hand is what it reads.
func TestByHandAsByReflection(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	known := words{}
	byHand := 0
	for range 3000 {
		rows := make([]Row, r.IntN(3))
		for i := range rows {
			rows[i] = randomRow(r)
		}
		seconds := []float64{0, 0.25, 1e-9, 3}[r.IntN(4)]
		want, err := encodeLine(CaseResult{Type: TypeResult, Seq: 12, Rows: rows, Seconds: seconds})
		got, ok := appendResult(nil, 12, rows, seconds)
		if ok && (err != nil || string(got) != string(want)) {
			t.Fatalf("by hand %s\nby json %s, %v", got, want, err)
		}
		if err != nil {
			continue
		}
		line := want[:len(want)-1]
		if r.IntN(2) == 0 { // as Python writes it
			line = []byte(strings.NewReplacer(`":`, `": `, `,"`, `, "`, `},{`, `}, {`).Replace(string(line)))
		}
		var wanted CaseResult
		if err := decodeMessage(line, &wanted); err != nil {
			continue // the spaces went into a text
		}
		if read, ok := parseRows(line, known); ok {
			byHand++
			if !reflect.DeepEqual(*read, wanted) {
				t.Fatalf("%s\nby hand %#v\nby json %#v", line, *read, wanted)
			}
		}
	}
	if byHand < 200 {
		t.Errorf("only %d results were read by hand", byHand)
	}
	for _, c := range []Case{
		{Seq: 1, ID: "9d3b", Op: "synthetic", Params: json.RawMessage(`{"a":1,"b":"x{\"}"}`), Attempt: 1},
		{Seq: 1 << 60, ID: "a", Op: "b", Params: json.RawMessage(`{ "a" : [1, 2] }`), Sweep: json.RawMessage(`[{"m":1},{"m":2}]`), Attempt: 3},
		{Seq: 2, Op: "größe", Params: json.RawMessage(`{}`)},
		{Seq: 2, Op: "x", Params: json.RawMessage(`nonsense`)},
	} {
		c.Type = TypeCase
		want, err := encodeLine(c)
		got, ok := appendCase(nil, &c)
		if ok && (err != nil || string(got) != string(want)) {
			t.Errorf("by hand %s\nby json %s, %v", got, want, err)
		}
		if err != nil {
			continue
		}
		var wanted Case
		if err := decodeMessage(want, &wanted); err != nil {
			t.Fatal(err)
		}
		if read, ok := parseCase(want[:len(want)-1]); ok && !reflect.DeepEqual(*read, wanted) {
			t.Errorf("by hand %+v\nby json %+v", read, wanted)
		} else if !ok && c.Op != "größe" {
			t.Errorf("%s is not read by hand", want)
		}
	}
}

// TestOtherFormsAreNotReadByHand: they go the general way, which says what is
// wrong with them.
func TestOtherFormsAreNotReadByHand(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		``, `{`, `{}`, `{"type":"result"}`, `{"type":"result","seq":1}`, `{"type":"result","seq":01,"rows":[]}`, `{"type":"result","seq":1.5,"rows":[]}`,
		`{"type":"result","seq":1,"rows":[{"a":1}]`, `{"type":"result","seq":1,"rows":[{"a":1}]}}`, `{"type":"result","seq":1,"rows":[{"a":1,}]}`,
		`{"type":"result","seq":1,"rows":[,]}`, `{"type":"result","seq":1,"rows":[{"a":+1}]}`, `{"type":"result","seq":1,"rows":[{"a":1e}]}`,
		`{"type":"result","seq":1,"rows":[{"a":NaN}]}`, `{"type":"result","seq":1,"rows":[{"a":[1]}]}`, `{"type":"result","seq":1,"rows":[{"a":"\u0041"}]}`,
		`{"type":"result","seq":1,"rows":[{"a":"` + "\xff" + `"}]}`, `{"type":"result","seq":1,"rows":null}`, `{"type":"error","seq":1,"rows":[]}`,
		`{"type":"result","seq":99999999999999999999,"rows":[]}`, `{"type":"result","seq":1,"rows":[],"seconds":1,"attachments":[]}`,
	} {
		if r, ok := parseRows([]byte(line), words{}); ok {
			t.Errorf("%s was read as %+v", line, r)
		}
	}
	for _, line := range []string{`{"type":"case","seq":1,"id":"a","op":"b","params":{}`, `{"type":"case","seq":1,"id":"a","op":"b","params":}`, `{"type":"case","seq":1,"id":"a","op":"b","params":{]}x}`} {
		if c, ok := parseCase([]byte(line)); ok {
			t.Errorf("%s was read as %+v", line, c)
		}
	}
}

func TestSeqSet(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	var s seqSet
	want := map[int64]bool{}
	for range 500 {
		n := 1000 + r.Int64N(900)
		s.add(n)
		want[n] = true
	}
	for n := int64(-10); n < 3000; n++ {
		if s.has(n) != want[n] {
			t.Fatalf("%d: %v, want %v", n, s.has(n), want[n])
		}
	}
	if s.has(math.MaxInt64) {
		t.Error("a number that was never added")
	}
}
