package gate

import (
	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// ledgerEntry is the status of a case, with the class and message of its failure.
type ledgerEntry struct{ status, class, message string }

type ledgerIndex map[string]ledgerEntry

// ledgerByCase indexes the ledger by case id. The index is empty if the dataset has no complete ledger.
func ledgerByCase(ds *stage.Dataset) ledgerIndex {
	out := ledgerIndex{}
	if ds.Ledger == nil {
		return out
	}

	id, status, class, msg := column(ds.Ledger, "case_id"), column(ds.Ledger, "status"),
		column(ds.Ledger, "class"), column(ds.Ledger, "message")
	if id == nil || status == nil || class == nil || msg == nil {
		return out
	}

	for i := range id.Len() {
		out[table.Text(id, i)] = ledgerEntry{table.Text(status, i), table.Text(class, i), table.Text(msg, i)}
	}
	return out
}

func (l ledgerIndex) entry(cases arrow.Record, row int) ledgerEntry {
	if len(l) == 0 {
		return ledgerEntry{}
	}

	id := column(cases, "case_id")
	if id == nil {
		return ledgerEntry{}
	}
	return l[table.Text(id, row)]
}
