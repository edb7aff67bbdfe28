package trace

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/ianlancetaylor/demangle"
	"github.com/ncruces/go-sqlite3"
)

// sqliteMagic is the beginning of an SQLite file.
const sqliteMagic = "SQLite format 3\x00"

// export is an SQLite file that nsys exported. Versions of nsys have different tables and columns.
type export struct {
	db      *sqlite3.Conn
	columns map[string][]string // by table
}

// readSQLite reads the kernels, copies and marks of steps that nsys exported to an SQLite file.
func readSQLite(path string, rec *recording) error {
	full, err := filepath.Abs(path)
	if err != nil {
		return err
	}

	// The file is not changed and needs no journal, so it may be in a folder that cannot be written.
	uri := url.URL{Scheme: "file", Path: full, RawQuery: "mode=ro&immutable=1"}
	db, err := sqlite3.OpenFlags(uri.String(), sqlite3.OPEN_READONLY|sqlite3.OPEN_URI)
	if err != nil {
		return fmt.Errorf("SQLite: %w", err)
	}
	defer db.Close() //nolint:errcheck // nothing was changed

	e := &export{db: db, columns: map[string][]string{}}
	for _, read := range []func(*recording) error{e.schema, e.devices, e.kernels, e.graphs, e.copies, e.steps} {
		if err := read(rec); err != nil {
			return fmt.Errorf("SQLite: %w", err)
		}
	}

	return nil
}

// rows calls f for each row of a query.
func (e *export) rows(query string, f func(*sqlite3.Stmt)) error {
	stmt, _, err := e.db.Prepare(query)
	if err != nil {
		return err
	}
	defer stmt.Close() //nolint:errcheck // Err reports what went wrong

	for stmt.Step() {
		f(stmt)
	}
	return stmt.Err()
}

// column returns a column of a table, or null if the table lacks it.
func (e *export) column(table, name string) string {
	if slices.Contains(e.columns[table], name) {
		return table + "." + name
	}
	return "NULL"
}

const (
	kernelTable = "CUPTI_ACTIVITY_KIND_KERNEL"
	graphTable  = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
	deviceTable = "TARGET_INFO_CUDA_DEVICE"
	rangeTable  = "NVTX_EVENTS"
)

func (e *export) schema(*recording) error {
	err := e.rows("SELECT m.name, c.name FROM sqlite_schema AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table'",
		func(s *sqlite3.Stmt) {
			e.columns[s.ColumnText(0)] = append(e.columns[s.ColumnText(0)], s.ColumnText(1))
		})
	if err != nil {
		return err
	}

	if e.columns["StringIds"] == nil {
		return fmt.Errorf("it has no table StringIds: it is no export of nsys (nsys export --type sqlite)")
	}
	return nil
}

// devices reads the names of the GPUs. nsys writes them once per process and device.
func (e *export) devices(rec *recording) error {
	if e.columns["TARGET_INFO_GPU"] == nil {
		return nil
	}
	return e.rows("SELECT name FROM TARGET_INFO_GPU ORDER BY id LIMIT 1", func(s *sqlite3.Stmt) {
		rec.meta.Device = s.ColumnText(0)
	})
}

// from returns expressions for the device and the process of a row of activities, and for the number of SMs
// of the device. Which GPU a device of a process is depends on CUDA_VISIBLE_DEVICES. The process is null if the
// device is the number of the GPU.
func (e *export) from(table string) (device, process, sms string) {
	device, process, sms = "deviceId", processID(e.column(table, "globalPid")), "NULL"
	if e.columns[deviceTable] == nil || e.column(table, "globalPid") == "NULL" {
		return device, process, sms
	}

	of := func(column string) string {
		return "(SELECT " + e.column(deviceTable, column) + " FROM " + deviceTable + " WHERE cudaId = deviceId AND " +
			deviceTable + ".pid = " + process + ")"
	}
	return "COALESCE(" + of("gpuId") + ", deviceId)", "CASE WHEN " + of("gpuId") + " IS NULL THEN " + process + " END",
		of("numMultiprocessors")
}

// processID returns the expression for the process id in a column. nsys packs it with the host, and for threads with
// the thread, into one number.
func processID(column string) string { return "(" + column + " / 0x1000000) % 0x1000000" }

func (e *export) kernels(rec *recording) error {
	if e.columns[kernelTable] == nil {
		return nil // reported as a file without kernels
	}

	device, process, sms := e.from(kernelTable)
	column := func(name string) string { return e.column(kernelTable, name) }
	query := fmt.Sprintf(`SELECT %s, %s, start, end, COALESCE(n.value, ''), %s, %s, 1.0 * %s * %s * %s / %s, %s
		FROM %s LEFT JOIN StringIds AS n ON n.id = COALESCE(%s, %s, %s)`,
		device, process, column("streamId"), column("correlationId"), column("gridX"), column("gridY"),
		column("gridZ"), sms, processID(column("globalPid")), kernelTable, column("mangledName"), column("demangledName"),
		column("shortName"))
	names := map[string][]byte{}
	return e.rows(query, func(s *sqlite3.Stmt) {
		rec.events++
		iv := interval{s.ColumnInt64(2), s.ColumnInt64(3)}
		if s.ColumnType(2) == sqlite3.NULL || !usable(iv.start, iv.end-iv.start) {
			rec.skipped++
			return
		}

		d := rec.device(origin{device: s.ColumnText(0), pid: s.ColumnText(1)})
		if process := s.ColumnText(8); !slices.Contains(d.processes, process) { // few processes share a device
			d.processes = append(d.processes, process)
		}
		if s.ColumnType(7) != sqlite3.NULL {
			d.cover(iv, s.ColumnFloat(7))
		}
		launch := launchOf(strconv.AppendInt(nil, s.ColumnInt64(5), 10), strconv.AppendInt(nil, s.ColumnInt64(6), 10))
		name, ok := names[string(s.ColumnRawText(4))]
		if !ok {
			name = []byte(demangled(s.ColumnText(4)))
			names[s.ColumnText(4)] = name
		}
		rec.add(d, name, iv, launch, collective{})
	})
}

// demangled returns the name that PyTorch's profiler gives a kernel. nsys demangles in a form of its own:
// elementwise_kernel<(int)128, <unnamed>::f>.
func demangled(name string) string {
	const longest = 1024 // the profiler leaves longer names as they are
	if len(name) > longest {
		return name
	}
	return demangle.Filter(name)
}

// graphs counts the graphs that nsys recorded as a whole.
func (e *export) graphs(rec *recording) error {
	if e.columns[graphTable] == nil {
		return nil
	}
	return e.rows("SELECT COUNT(*) FROM "+graphTable, func(s *sqlite3.Stmt) { rec.graphs = s.ColumnInt64(0) })
}

func (e *export) copies(rec *recording) error {
	for _, table := range []string{"CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"} {
		if e.columns[table] == nil {
			continue // nsys writes tables that have rows
		}

		device, process, _ := e.from(table)
		query := fmt.Sprintf("SELECT %s, %s, start, end FROM %s WHERE start IS NOT NULL", device, process, table)
		err := e.rows(query, func(s *sqlite3.Stmt) {
			if iv := (interval{s.ColumnInt64(2), s.ColumnInt64(3)}); usable(iv.start, iv.end-iv.start) {
				d := rec.device(origin{device: s.ColumnText(0), pid: s.ColumnText(1)})
				d.copies = append(d.copies, iv)
			}
		})
		if err != nil {
			return err
		}
	}

	return nil
}

// steps reads the NVTX ranges that mark steps.
func (e *export) steps(rec *recording) error {
	if e.columns[rangeTable] == nil {
		return nil
	}

	query := `SELECT start, end, COALESCE(text, n.value) AS name, ` + processID(e.column(rangeTable, "globalTid")) +
		` FROM NVTX_EVENTS LEFT JOIN StringIds AS n ON n.id = ` +
		e.column(rangeTable, "textId") + ` WHERE start IS NOT NULL AND end IS NOT NULL AND (`
	for i, name := range stepNames {
		if i > 0 {
			query += " OR "
		}
		query += "name GLOB '" + name + "*'"
	}

	return e.rows(query+")", func(s *sqlite3.Stmt) {
		iv := interval{s.ColumnInt64(0), s.ColumnInt64(1)}
		if name := s.ColumnText(2); isStep(name) && usable(iv.start, iv.end-iv.start) && len(rec.ranges) < maxRanges {
			rec.ranges = append(rec.ranges, span{interval: iv, name: name, process: s.ColumnText(3)})
		}
	})
}
