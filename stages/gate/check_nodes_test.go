package gate

import (
	"strings"
	"testing"

	"aicplan/sink/table"
)

// TestNodesOfTwoDrivers: rows of two drivers are no one measurement, however close
// their sentinels are.
func TestNodesOfTwoDrivers(t *testing.T) {
	t.Parallel()
	ds := flawless(8)
	ds.Table = table.WithColumn(ds.Table, "node", table.Texts([]string{"n1", "n1", "n2", "n2", "n3", "n3", "n3", "n4"}, nil))
	with := func(drivers ...string) { ds.Table = table.WithColumn(ds.Table, "driver", table.Texts(drivers, nil)) }
	with("580.1", "580.1", "580.1", "580.1", "580.1", "580.1", "580.1", "580.1")
	if got := only(t, run(t, ds, `check "nodes" {}`)); got.Result != ResultPass {
		t.Errorf("one driver: %+v", got)
	}
	// A row that has none, as of a task of another aicplan, says nothing.
	with("580.1", "580.1", "", "580.1", "570.9", "570.9", "580.1", "580.1")
	got := only(t, run(t, ds, `check "nodes" {}`))
	for _, want := range []string{"0 of 4 nodes differ from the median of all", "driver 570.9 (2 rows of n3)", "driver 580.1 (5 rows of n1, n2, n3, n4)"} {
		if got.Result != ResultFail || !strings.Contains(got.Message, want) {
			t.Errorf("two drivers: %s: %s; want %q", got.Result, got.Message, want)
		}
	}
	if got := only(t, run(t, ds, "check \"nodes\" {\nsame_driver = false\n}")); got.Result != ResultPass {
		t.Errorf("two drivers that are allowed: %+v", got)
	}
}
