package collect

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/apache/arrow/go/v17/arrow"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/table"
)

// Tries are all measurements of a collect's cases that the journals have.
type Tries struct {
	// Table has a row a measurement, in the order of time, with the columns that
	// were asked for: the parameters, those of the case's row, try, at, who
	// measured and the environment.
	Table arrow.Record
	// Schema has all columns that there are.
	Schema *arrow.Schema
	// Several is how many cases were left out because they have several rows.
	Several int
}

// ReadTries reads the tries of the cases of a collect's table. It builds no rows:
// journals may have millions of tries. Only the named columns are made; all of them
// where columns is nil. A column that is not there is left out.
func ReadTries(store *checkpoint.Store, d *stage.Dataset, columns []string) (*Tries, error) {
	ids, err := table.Strings(d.Table, "case_id")
	if err != nil {
		return nil, err
	}
	r := newTryReader(d, ids.Values, columns)
	err = eachEntry(store, d.Info.Op, func(in journaled, e checkpoint.Entry, _ checkpoint.Place) error { return r.entry(e, in.Context) })
	if err != nil {
		return nil, err
	}
	out := &Tries{Several: len(r.several)}
	if r.rows() == 0 {
		return out, nil
	}
	order := r.inTime()
	var unfit []string
	var fields []arrow.Field
	for _, c := range r.columns(order[0]) {
		fields = append(fields, arrow.Field{Name: c.name, Type: r.typeOf(c), Nullable: true})
		if c.unfit() {
			unfit = append(unfit, c.name)
		}
	}
	if len(unfit) == 0 {
		out.Schema = arrow.NewSchema(fields, nil)
		out.Table = r.record(order)
		return out, nil
	}
	// The builder of tables says which value does not fit into its column.
	for _, name := range unfit {
		if !r.byName[name].kept {
			return ReadTries(store, d, unfit)
		}
	}
	if err := r.build(order, unfit); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("the columns %q have values of several types", unfit)
}

// tryReader gathers the tries by column, in the order of the journals.
type tryReader struct {
	d      *stage.Dataset
	ids    []string         // by row of the table
	index  map[string]int32 // row of the table, by case
	all    bool
	wanted map[string]bool

	byName                                       map[string]*tryColumn
	caseID, try, at                              *tryColumn // of every try, and not held as cells
	framework, version, device, worker, deviceID *tryColumn
	params                                       []paramColumn

	of      []int32 // row of the table, by try
	nanos   []int64 // when it was measured, by try
	atText  []byte  // the same as the journals have it, one behind the other
	atEnd   []int
	touched []*tryColumn
	several map[int32]bool
	words   words
}

// paramColumn is a parameter and where the table has it.
type paramColumn struct {
	column *tryColumn
	at     int
}

func newTryReader(d *stage.Dataset, ids, columns []string) *tryReader {
	r := &tryReader{
		d: d, ids: ids, index: make(map[string]int32, len(ids)), all: columns == nil, wanted: map[string]bool{},
		byName: map[string]*tryColumn{}, several: map[int32]bool{}, words: words{number: map[string]uint32{}},
	}
	for row, id := range ids {
		r.index[id] = int32(row)
	}
	for _, name := range columns {
		r.wanted[name] = true
	}
	for name, c := range map[string]**tryColumn{"case_id": &r.caseID, "try": &r.try, "at": &r.at} {
		*c = r.column([]byte(name))
		(*c).special = true
	}
	for name, c := range map[string]**tryColumn{
		"framework": &r.framework, "version": &r.version, "device": &r.device, "worker": &r.worker, "device_uuid": &r.deviceID,
	} {
		*c = r.column([]byte(name))
	}
	for _, p := range d.Info.Params {
		if at := table.Index(d.Table, p); at >= 0 {
			r.params = append(r.params, paramColumn{r.column([]byte(p)), at})
		}
	}
	return r
}

// column is a column by its name.
func (r *tryReader) column(name []byte) *tryColumn {
	c := r.byName[string(name)]
	if c == nil {
		c = &tryColumn{name: string(name), first: -1, now: -1}
		c.kept = r.all || r.wanted[c.name]
		r.byName[c.name] = c
	}
	return c
}

func (r *tryReader) rows() int { return len(r.of) }

// entry takes what one entry of a journal has. What was measured says more than
// what the case's row has under the same name, and that less than its parameters
// and the environment.
func (r *tryReader) entry(e checkpoint.Entry, jc *checkpoint.Context) error {
	row, ok := r.index[e.ID]
	if !ok || e.Kind == checkpoint.Failed && quickEntry(e) {
		return nil
	}
	sc := scanner{b: e.Payload}
	var tail entryTail
	n, from, quick := 0, 0, false
	if e.Kind == checkpoint.Measured {
		n, from, quick = tail.look(&sc)
	}
	var slow *entry
	who := label{jc.Framework, jc.Version, jc.Device}
	if !quick {
		var err error
		if slow, err = decodeEntry(e); err != nil {
			return err
		}
		n = len(slow.Rows)
		tail = entryTail{worker: []byte(slow.Worker), uuid: []byte(slow.DeviceUUID), at: []byte(slow.At)}
		if slow.Label != nil {
			who = *slow.Label
		}
	}
	switch {
	case n == 0:
		return nil // it failed
	case n > 1:
		r.several[row] = true
		return nil
	}
	r.of = append(r.of, row)
	r.nanos = append(r.nanos, Nanos(string(tail.at)))
	if r.at.kept {
		r.atText = append(r.atText, tail.at...)
		r.atEnd = append(r.atEnd, len(r.atText))
	}
	if quick {
		sc.i = from
		sc.object(r.scanned)
	} else {
		r.decoded(slow.Rows[0])
	}
	for _, p := range r.params {
		r.put(p.column, r.words.cell(table.Value(r.d.Table, p.at, int(row)), p.column.kept))
	}
	for name, v := range jc.Env {
		c := r.column([]byte(name))
		r.put(c, r.words.text([]byte(v), c.kept))
	}
	r.put(r.framework, r.words.text([]byte(who.Framework), r.framework.kept))
	r.put(r.version, r.words.text([]byte(who.Version), r.version.kept))
	r.put(r.device, r.words.text([]byte(who.Device), r.device.kept))
	r.put(r.worker, r.words.text(tail.worker, r.worker.kept))
	if len(tail.uuid) > 0 {
		r.put(r.deviceID, r.words.text(tail.uuid, r.deviceID.kept))
	}
	r.end()
	return nil
}

func (r *tryReader) scanned(name []byte, tag byte, v []byte) {
	c := r.column(name)
	switch tag {
	case aNumber:
		r.put(c, numberCell(v))
	case aWord:
		r.put(c, r.words.text(v, c.kept))
	case nothing:
		r.put(c, tryCell{})
	default:
		r.put(c, flagCell(tag == aTrue))
	}
}

func (r *tryReader) decoded(row worker.Row) {
	for name, v := range row {
		c := r.column([]byte(name))
		r.put(c, r.words.cell(v, c.kept))
	}
}

// put gives the try that is being read a value, or another one.
func (r *tryReader) put(c *tryColumn, v tryCell) {
	if c.special {
		return
	}
	if try := int32(len(r.of) - 1); c.now != try {
		c.now = try
		r.touched = append(r.touched, c)
	}
	c.cell = v
}

// end keeps the values of a try.
func (r *tryReader) end() {
	for _, c := range r.touched {
		if c.first < 0 || r.compare(c.now, c.first) < 0 {
			c.first = c.now
		}
		c.add()
	}
	r.touched = r.touched[:0]
}

// when says in words when a try was measured.
func (r *tryReader) when(try int32) []byte {
	from := 0
	if try > 0 {
		from = r.atEnd[try-1]
	}
	return r.atText[from:r.atEnd[try]]
}

// compare orders tries by time, and those of one time as the journals have them.
func (r *tryReader) compare(a, b int32) int {
	return cmp.Or(cmp.Compare(r.nanos[a], r.nanos[b]), cmp.Compare(a, b))
}

func (r *tryReader) inTime() []int32 {
	order := make([]int32, r.rows())
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, r.compare)
	return order
}

// columns are all columns in the order in which the tries bring them.
func (r *tryReader) columns(earliest int32) []*tryColumn {
	var out []*tryColumn
	for _, c := range r.byName {
		if c.special {
			c.first = earliest
		}
		if c.first >= 0 {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *tryColumn) int {
		return cmp.Or(r.compare(a.first, b.first), cmp.Compare(a.name, b.name))
	})
	return out
}

// record is the kept columns. Each is let go once it is made.
func (r *tryReader) record(order []int32) arrow.Record {
	var names []string
	var arrays []arrow.Array
	for _, c := range r.columns(order[0]) {
		if !c.kept {
			continue
		}
		names = append(names, c.name)
		switch c {
		case r.caseID:
			arrays = append(arrays, textArray(len(order), func(i int) string { return r.ids[r.of[order[i]]] }))
		case r.at:
			arrays = append(arrays, textArray(len(order), func(i int) string { return string(r.when(order[i])) }))
		case r.try:
			arrays = append(arrays, r.numbered(order))
		default:
			arrays = append(arrays, c.array(order, &r.words))
			c.kinds, c.bits, c.odd = nil, nil, nil
		}
	}
	return table.NewRecord(names, arrays)
}

// typeOf is the type that a column has in a table, whether it is kept or not.
func (r *tryReader) typeOf(c *tryColumn) arrow.DataType {
	switch {
	case c == r.try:
		return table.Int64
	case c.special:
		return table.String
	}
	return c.dataType()
}

// numbered counts the tries of each case from 1.
func (r *tryReader) numbered(order []int32) arrow.Array {
	count, out := make([]int32, len(r.ids)), make([]int64, len(order))
	for i, try := range order {
		count[r.of[try]]++
		out[i] = int64(count[r.of[try]])
	}
	return table.Ints(out, nil)
}

// build makes a table of some columns value by value, which fails where values do
// not fit.
func (r *tryReader) build(order []int32, names []string) error {
	b := table.NewBuilder()
	for _, try := range order {
		row := map[string]any{}
		for _, name := range names {
			if v, ok := r.byName[name].value(try, &r.words); ok {
				row[name] = v
			}
		}
		if err := b.Append(row); err != nil {
			return err
		}
	}
	return nil
}
