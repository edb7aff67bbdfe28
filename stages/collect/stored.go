package collect

import (
	"encoding/json"
	"errors"
	"hash/maphash"
	"slices"
	"strconv"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"aicplan/engine/checkpoint"
	"aicplan/engine/stage"
	"aicplan/sink/table"
	"aicplan/stages/runtimes"
)

// errInexact says that rows of a table do not tell all that their entries in the
// journal do.
var errInexact = errors.New("the stored table does not say how a value was written")

// takeStored fills units with the rows that the stage's own table of an earlier
// run has of them, where the journal has nothing newer: a table is read column by
// column, which costs a tenth of reading the entries. What it does not have is
// left to load. The rows are the same either way, and so is the table that is
// made of them.
func (r *running) takeStored() error {
	if r.part != nil {
		return nil
	}
	rec, err := r.rc.Store.ReadStage(r.rc.Address)
	if errors.Is(err, checkpoint.ErrMissing) || errors.Is(err, checkpoint.ErrCorrupt) {
		return nil
	}
	if err != nil {
		return err
	}
	if rec.Journal != r.journal.Digest() || rec.Outputs.Table == "" || len(rec.JournalRead) == 0 {
		return nil
	}
	j := r.job
	var want []int32
	for i := range j.units {
		if u := &j.units[i]; u.state == measured && u.rows == 0 {
			want = append(want, int32(i))
		}
	}
	old := r.journal.Before(rec.JournalRead, len(want), func(i int) string { return j.id(int(want[i])) })
	kept := want[:0]
	for i, unit := range want {
		if old[i] {
			kept = append(kept, unit)
		}
	}
	const worth = 4 // below one in so many, the entries are read sooner
	if worth*len(kept) < rec.JournalCases {
		return nil
	}
	t := &taker{job: j, env: r.env, want: kept, before: table.Names(table.Drop(j.cases.Record(), "status"))}
	t.before = append(t.before, missing(t.before, j.cases.SweepColumns())...)
	err = r.rc.Store.RecordParts(rec.Outputs.Table, t.take)
	if err == nil && t.inexact() {
		err = errInexact
	}
	switch {
	case errors.Is(err, errInexact), errors.Is(err, checkpoint.ErrMissing), errors.Is(err, checkpoint.ErrCorrupt):
		j.forgetRows()
		return nil
	}
	return err
}

// measured is how many units have rows.
func (j *job) measured() int {
	n := 0
	for i := range j.units {
		if j.units[i].state == measured {
			n++
		}
	}
	return n
}

// forgetRows has load read what takeStored took.
func (j *job) forgetRows() {
	j.stored = nil
	for i := range j.units {
		if u := &j.units[i]; u.taken {
			u.taken, u.row, u.rows = false, 0, 0
		}
	}
}

func missing(have, want []string) []string {
	var out []string
	for _, name := range want {
		if !slices.Contains(have, name) {
			out = append(out, name)
		}
	}
	return out
}

// taker reads a table in parts.
type taker struct {
	job    *job
	env    *runtimes.Environment
	before []string         // the columns in front of the measured ones
	want   []int32          // units, in the order of the plan
	at     int              // in want: the unit whose rows come, or came last
	finds  map[uint64]int32 // places in want, by the hash of an id; see find
	seed   maphash.Seed
	extras bool // there are columns of the worker's own
	left   bool // there are rows that no unit took
	began  bool
}

// inexact says whether a row that is gone may have given a column of the worker's
// own its type.
func (t *taker) inexact() bool { return t.extras && t.left }

// take is called with each part of the table.
func (t *taker) take(rec arrow.Record) error {
	names := table.Names(rec)
	from := slices.Index(names, "framework")
	if from < 0 || !sameNames(names[:from], t.before) {
		return errInexact
	}
	ids, err := table.Array(rec, "case_id")
	if err != nil {
		return err
	}
	id, ok := ids.(*array.String)
	if !ok {
		return errInexact
	}
	if t.whole(rec, from) {
		return t.takeWhole(rec, from, id)
	}
	s := t.job.rows
	row, err := s.storedRow(rec, from, t.env)
	if err != nil {
		return err
	}
	t.extras = t.extras || row.extras
	for i := range int(rec.NumRows()) {
		u := t.unit(id.Value(i), int32(s.n))
		if u == nil {
			t.left = true
			continue
		}
		if u.rows == 0 {
			u.row, u.taken = int32(s.n), true
		}
		u.rows++
		row.take(i)
	}
	return nil
}

// whole says whether the columns of a part are kept as they are. All parts are alike
// in that, or the table is of no use.
func (t *taker) whole(rec arrow.Record, from int) bool {
	ok := t.job.schema.whole(rec, from)
	if !t.began && ok {
		t.job.stored = &storedColumns{want: t.job.measured(), columns: map[string]*table.Stack{}}
	}
	t.began = true
	return ok && t.job.stored != nil
}

func (t *taker) takeWhole(rec arrow.Record, from int, ids *array.String) error {
	stored := t.job.stored
	for i := range ids.Len() {
		u := t.unit(ids.Value(i), inStored+int32(stored.n+i))
		if u == nil {
			continue
		}
		if u.rows == 0 {
			u.row, u.taken = inStored+int32(stored.n+i), true
		}
		u.rows++
	}
	return stored.add(rec, from)
}

func sameNames(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// unit is the one whose id a row has; nil where none is wanted. Rows come in the
// order of an earlier plan, which mostly is that of this one. Next is the number
// that the row is going to have.
func (t *taker) unit(id string, next int32) *unit {
	j := t.job
	for at := t.at; at < min(t.at+2, len(t.want)); at++ {
		if j.id(int(t.want[at])) == id {
			t.at = at
			return fits(&j.units[t.want[at]], next)
		}
	}
	if t.finds == nil {
		t.seed, t.finds = maphash.MakeSeed(), make(map[uint64]int32, len(t.want))
		for at, u := range t.want {
			t.finds[maphash.String(t.seed, j.id(int(u)))] = int32(at)
		}
	}
	at, ok := t.finds[maphash.String(t.seed, id)]
	if !ok || j.id(int(t.want[at])) != id {
		return nil
	}
	t.at = int(at)
	return fits(&j.units[t.want[at]], next)
}

// fits keeps away rows of one case that do not lie together.
func fits(u *unit, next int32) *unit {
	if u.rows > 0 && u.row+u.rows != next {
		return nil
	}
	return u
}

// storedRow takes rows of a record into a store.
type storedRow struct {
	s                *rowStore
	set              []func(row int)
	attempts         *array.Int64
	worker, uuid, at *array.String
	labels           [3]*array.String
	env              label
	attached         *array.String
	extras           bool
	lastWorker       memo
	lastUUID         memo
	time             []byte
}

// memo is the text that was numbered last: that of the next row is mostly the
// same.
type memo struct {
	text string
	no   int32
	used bool
}

func (s *rowStore) wordOf(text string, m *memo) int32 {
	if !m.used || m.text != text {
		*m = memo{text, s.word([]byte(text)), true}
	}
	return m.no
}

// storedRow prepares to take rows of rec; from is the first column that the stage
// made.
func (s *rowStore) storedRow(rec arrow.Record, from int, env *runtimes.Environment) (*storedRow, error) {
	r := &storedRow{s: s, env: label{env.Framework, env.Version, env.Device}}
	ok := true
	text := func(col arrow.Array) *array.String {
		a, is := col.(*array.String)
		ok = ok && is
		return a
	}
	for c := from; c < int(rec.NumCols()); c++ {
		col := rec.Column(c)
		switch name := rec.ColumnName(c); name {
		case "framework":
			r.labels[0] = text(col)
		case "version":
			r.labels[1] = text(col)
		case "device":
			r.labels[2] = text(col)
		case "attempts":
			a, is := col.(*array.Int64)
			ok = ok && is
			r.attempts = a
		case "worker":
			r.worker = text(col)
		case "device_uuid":
			r.uuid = text(col)
		case "started_at":
			r.at = text(col)
		case stage.AttachmentsColumn:
			r.attached = text(col)
		default:
			set := s.setter(name, col)
			if set == nil {
				return nil, errInexact
			}
			r.extras = r.extras || !s.column([]byte(name)).metric
			r.set = append(r.set, set)
		}
	}
	if !ok || r.labels[0] == nil || r.labels[1] == nil || r.labels[2] == nil || r.attempts == nil || r.worker == nil || r.uuid == nil || r.at == nil {
		return nil, errInexact
	}
	return r, nil
}

// setter gives the row that is being added the value of a column; nil where the
// column does not say exactly what the worker sent.
func (s *rowStore) setter(name string, col arrow.Array) func(row int) {
	c := s.column([]byte(name))
	other := func(v any) {
		c.tag(s.n, aWord)
		c.others = grown(c.others, s.n)
		c.others[s.n] = v
	}
	number := func(f float64) {
		c.tag(s.n, aNumber)
		c.floats = grown(c.floats, s.n)
		c.floats[s.n] = f
	}
	var set func(row int)
	switch a := col.(type) {
	case *array.Int64:
		set = func(row int) { number(float64(a.Value(row))) }
		if !c.metric {
			set = func(row int) { other(json.Number(strconv.FormatInt(a.Value(row), 10))) }
		}
	case *array.Float64:
		if !c.metric {
			return nil // 1.50 and 1.5 are one value, and two texts
		}
		set = func(row int) { number(a.Value(row)) }
	case *array.Boolean:
		set = func(row int) { s.setFlag(c, a.Value(row)) }
		if !c.metric {
			set = func(row int) { other(a.Value(row)) }
		}
	case *array.String:
		var last memo
		set = func(row int) {
			c.tag(s.n, aWord)
			c.words = grown(c.words, s.n)
			c.words[s.n] = s.wordOf(a.Value(row), &last)
		}
		if !c.metric {
			set = func(row int) { other(a.Value(row)) }
		}
	default:
		return nil
	}
	if col.NullN() == 0 {
		return set
	}
	return func(row int) {
		if col.IsValid(row) {
			set(row)
		}
	}
}

func (r *storedRow) take(i int) {
	s := r.s
	for _, set := range r.set {
		set(i)
	}
	if r.attached != nil && r.attached.IsValid(i) {
		var list []stage.Attachment
		if json.Unmarshal([]byte(r.attached.Value(i)), &list) == nil && len(list) > 0 {
			s.attached[int32(s.n)] = list
		}
	}
	var l *label
	if had := (label{r.labels[0].Value(i), r.labels[1].Value(i), r.labels[2].Value(i)}); had != r.env {
		l = &had
	}
	s.attempts = append(s.attempts, int32(r.attempts.Value(i)))
	s.workers = append(s.workers, s.wordOf(r.worker.Value(i), &r.lastWorker))
	s.uuids = append(s.uuids, s.wordOf(r.uuid.Value(i), &r.lastUUID))
	r.time = append(r.time[:0], r.at.Value(i)...)
	s.ended(r.time, l)
}
