package export

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/sink/tree"
)

// importedFrom is the column in which rows of a collect name the perf file that
// answered their case; rows that were measured have none.
const importedFrom = "imported_from"

// origin counts rows by their source.
type origin struct{ collected, imported, unknown int }

func (o origin) and(p origin) origin {
	return origin{o.collected + p.collected, o.imported + p.imported, o.unknown + p.unknown}
}

// text describes the rows that were not measured, or returns "".
func (o origin) text() string {
	switch {
	case o.imported == 0:
		return ""
	case o.collected == 0:
		return "; all of them imported"
	}
	return fmt.Sprintf("; %d of %d imported", o.imported, o.collected+o.imported)
}

// originOf counts the rows of rec, which belong to ds, by origin: measured, or imported by a stage or by
// ckpt import. If no cases were planned, all rows were read from files.
func originOf(ds *stage.Dataset, rec arrow.Record) origin {
	if ds.Planned == nil {
		return origin{imported: table.Len(rec)}
	}

	col, err := table.Strings(rec, importedFrom)
	if err != nil { // no row is imported
		return origin{collected: table.Len(rec)}
	}
	measured := table.Empty(col)
	return origin{collected: measured, imported: col.Len() - measured}
}

// keptFrom returns the source of the rows that a merge keeps. The sidecar of a mixed table
// does not state it for single rows.
func keptFrom(sidecar, name string, kept int) (origin, error) {
	if kept == 0 {
		return origin{}, nil
	}

	meta, err := tree.ReadMeta(sidecar)
	if errors.Is(err, fs.ErrNotExist) {
		return origin{unknown: kept}, nil
	}

	if err != nil {
		return origin{}, err
	}

	switch meta.OriginOf(name) {
	case tree.Collected:
		return origin{collected: kept}, nil
	case tree.Imported:
		return origin{imported: kept}, nil
	}

	return origin{unknown: kept}, nil
}

// into writes the counts into a sidecar's entry; a table that was collected as
// a whole needs none.
func (o origin) into(entry *tree.TableMeta) {
	if o.imported > 0 || o.unknown > 0 {
		entry.CollectedRows, entry.ImportedRows, entry.UnknownRows = int64(o.collected), int64(o.imported), int64(o.unknown)
	}
}
