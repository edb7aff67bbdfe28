package dedupe

import (
	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// Lost is what a ledger says of a case without a measurement.
type Lost struct{ Status, Class, Message string }

// LostCases returns the ledger of a dataset by case id.
func LostCases(ds *stage.Dataset) map[string]Lost {
	out := map[string]Lost{}
	for i := range table.Len(ds.Ledger) {
		row := table.Row(ds.Ledger, i)
		text := func(name string) string {
			s, _ := row[name].(string)
			return s
		}
		out[text("case_id")] = Lost{text("status"), text("class"), text("message")}
	}
	return out
}
