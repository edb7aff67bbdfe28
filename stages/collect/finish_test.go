package collect

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// TestRowsBelongToTheirCases checks tables of journals that several processors decode, in which the entries are in
// another order than the cases and some cases have two rows.
func TestRowsBelongToTheirCases(t *testing.T) {
	t.Parallel()
	const n = 3*partSize + 7
	b := newBench(t, steps("1"+list(n)))
	c, p := b.prepare("")
	cases := p.Private.(*Measurement).Cases
	env, _ := b.pools.Expect(t.Context(), b.store, b.runtime)
	journal, _, err := c.journal(b.store, cases.Spec, env)
	if err != nil {
		t.Fatal(err)
	}

	var entries []checkpoint.Entry
	for i := n - 1; i >= 0; i-- {
		m := i + 1
		rows := fmt.Sprintf(`{"latency":%d}`, m)
		if m%100 == 0 {
			rows += fmt.Sprintf(`,{"latency":%d,"extra":"x%d"}`, m, m)
		}
		entries = append(entries, checkpoint.Entry{ID: cases.ID(i), Kind: checkpoint.Measured,
			Payload: fmt.Appendf(nil, `{"rows":[%s],"attempts":1}`, rows)})
	}
	if err := journal.AppendAll(entries); err != nil {
		t.Fatal(err)
	}

	rec := b.must("", stage.StatusOK).Data.Table
	ms, _ := table.Int64s(rec, "m")
	latencies, _ := table.Float64s(rec, "latency")
	extras, _ := table.Strings(rec, "extra")
	if want := n + n/100; ms.Len() != want {
		t.Fatalf("%d rows, want %d", ms.Len(), want)
	}
	for i, m := range ms.Values {
		second := i > 0 && ms.Values[i-1] == m
		extra, has := extras.At(i)
		if latencies.Values[i] != float64(m) || has != second || second && extra != fmt.Sprint("x", m) {
			t.Fatalf("row %d of m = %d has latency %v and extra %q", i, m, latencies.Values[i], extra)
		}
	}
}

// list returns the numbers from 2 to n, each after a comma.
func list(n int) string {
	var out strings.Builder
	for m := 2; m <= n; m++ {
		fmt.Fprintf(&out, ", %d", m)
	}
	return out.String()
}

func TestFirstLineIsValidText(t *testing.T) {
	if got := firstLine("x" + strings.Repeat("\u00e9", 200)); !utf8.ValidString(got) {
		t.Errorf("%q", got)
	}
}
