package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"aicplan/sink/atomic"
)

// StageRecord is what a stage instance last produced, and from what. The
// fields that belong to the stage contract are carried as JSON.
type StageRecord struct {
	Address string `json:"address"`
	Kind    string `json:"kind"`
	// Key is the digest of Inputs; see Key.
	Key string `json:"key"`
	// Inputs is the canonical JSON that was hashed: Explain compares two.
	Inputs  json.RawMessage `json:"inputs"`
	Outputs Outputs         `json:"outputs"`

	// Journal is the digest of the journal that a collect took its rows from.
	Journal string `json:"journal,omitempty"`

	Status  string          `json:"status"`
	Message string          `json:"message,omitempty"`
	Info    json.RawMessage `json:"info,omitempty"`
	Counts  json.RawMessage `json:"counts,omitempty"`
	Values  json.RawMessage `json:"values,omitempty"`
	Checks  json.RawMessage `json:"checks,omitempty"`
	// Plan is the name of the plan's file or folder; see PlanName.
	Plan string `json:"plan,omitempty"`
	// Sample is true where -limit or -smoke left cases out: the record of a run over
	// all cases replaces it, and not the other way round.
	Sample bool `json:"sample,omitempty"`
	// Replacing is the token of a replacement that began and has not ended: what
	// the record says counts no more; see Journal.Withdraw.
	Replacing string `json:"replacing,omitempty"`
	// OutDir is where the artifacts were asked for; empty without any.
	OutDir    string          `json:"out_dir,omitempty"`
	Artifacts json.RawMessage `json:"artifacts,omitempty"`

	// Reason says why the stage ran: "stale: measure.samples 6 -> 12".
	Reason     string    `json:"reason,omitempty"`
	RunID      string    `json:"run_id,omitempty"`
	FinishedAt time.Time `json:"finished_at"`
	Seconds    float64   `json:"seconds"`
}

// Outputs are digests of objects; "" where there is no such table.
type Outputs struct {
	Table   string `json:"table,omitempty"`
	Ledger  string `json:"ledger,omitempty"`
	Planned string `json:"planned,omitempty"`
	// Attached are the attachments of the table's rows.
	Attached []string `json:"attached,omitempty"`
}

// Digests lists the tables that are there, without attachments.
func (o Outputs) Digests() []string {
	return slices.DeleteFunc([]string{o.Table, o.Ledger, o.Planned}, func(d string) bool { return d == "" })
}

// stageFile is a stage record on disk; Digest is over the bytes of Record.
type stageFile struct {
	Format int             `json:"format"`
	Digest string          `json:"digest"`
	Record json.RawMessage `json:"record"`
}

// WriteStage replaces the record of r.Address, atomically. FinishedAt is set
// to now when it is zero.
func (s *Store) WriteStage(r *StageRecord) error {
	if r.Address == "" {
		panic("checkpoint: a stage record without an address")
	}
	if err := s.ensure(); err != nil {
		return err
	}
	rec := *r
	if rec.FinishedAt.IsZero() {
		rec.FinishedAt = s.now().UTC()
	}
	body, err := json.Marshal(&rec)
	if err != nil {
		return fmt.Errorf("stage record %s: %w", r.Address, err)
	}
	data, err := json.Marshal(stageFile{Format: Format, Digest: Digest(body), Record: body})
	if err != nil {
		return fmt.Errorf("stage record %s: %w", r.Address, err)
	}
	return s.writeFile(s.stagePath(r.Address), append(data, '\n'))
}

// ReadStage returns the record of address. The error is ErrMissing when there
// is none and ErrCorrupt, reported to Options.Warn, when it cannot be trusted.
func (s *Store) ReadStage(address string) (*StageRecord, error) {
	path := s.stagePath(address)
	rec, err := s.readStageFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("stage record %s: %w", address, ErrMissing)
	case errors.Is(err, ErrCorrupt):
		s.warn(err.Error() + "; it is treated as missing")
		return nil, err
	case err != nil:
		return nil, err
	case rec.Address != address:
		ce := &CorruptError{Path: path, Detail: "it is the record of " + rec.Address}
		s.warn(ce.Error() + "; it is treated as missing")
		return nil, ce
	}
	return rec, nil
}

// readJSON reads a file of the state folder.
func readJSON(path string, to any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return atomic.Explain("read", path, err)
	}
	if err := json.Unmarshal(data, to); err != nil {
		return &CorruptError{Path: path, Detail: err.Error()}
	}
	return nil
}

func (s *Store) readStageFile(path string) (*StageRecord, error) {
	var f stageFile
	if err := readJSON(path, &f); err != nil {
		return nil, err
	}
	body := bytes.TrimSpace(f.Record)
	if got := Digest(body); got != f.Digest {
		return nil, &CorruptError{Path: path, Detail: fmt.Sprintf("the record has the digest %s, not %s", short(got), short(f.Digest))}
	}
	var rec StageRecord
	if err := json.Unmarshal(body, &rec); err != nil {
		return nil, &CorruptError{Path: path, Detail: err.Error()}
	}
	if rec.Inputs != nil {
		// Encoding escapes "<" and its like; the hashed form does not.
		inputs, err := Canonical(rec.Inputs)
		if err != nil {
			return nil, &CorruptError{Path: path, Detail: err.Error()}
		}
		rec.Inputs = inputs
	}
	if s.usable != nil {
		if err := s.usable(&rec); err != nil {
			return nil, &CorruptError{Path: path, Detail: err.Error()}
		}
	}
	return &rec, nil
}

// Stages returns all readable records by address. Damaged ones are reported
// to Options.Warn and left out.
func (s *Store) Stages() ([]*StageRecord, error) {
	paths, err := s.stagePaths()
	if err != nil {
		return nil, err
	}
	var out []*StageRecord
	for _, path := range paths {
		rec, err := s.readStageFile(path)
		switch {
		case errors.Is(err, ErrCorrupt):
			s.warn(err.Error() + "; it is treated as missing")
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
		case err != nil:
			return nil, err
		default:
			out = append(out, rec)
		}
	}
	slices.SortFunc(out, func(a, b *StageRecord) int { return strings.Compare(a.Address, b.Address) })
	return out, nil
}

func (s *Store) stagePaths() ([]string, error) {
	entries, err := os.ReadDir(s.path("stages"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, atomic.Explain("read", s.path("stages"), err)
	}
	var out []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".json") && !strings.HasPrefix(e.Name(), tempPrefix) {
			out = append(out, s.path("stages", e.Name()))
		}
	}
	return out, nil
}

// RemoveStage removes the record of address; ErrMissing when there is none.
// Its objects stay until GC, its measured cases stay in the journal.
func (s *Store) RemoveStage(address string) error {
	if err := s.ensure(); err != nil {
		return err
	}
	path := s.stagePath(address)
	err := s.files.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("stage record %s: %w", address, ErrMissing)
	}
	if err == nil {
		err = s.files.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return s.explain("remove", path, err)
	}
	return nil
}

func (s *Store) stagePath(address string) string {
	return s.path("stages", fileName(address)+".json")
}

// fileName turns an address into a file name: lower-case letters, digits,
// "_", "-" and "." stay as they are, every other byte is %XX. Upper-case
// letters are escaped too, for file systems that do not tell them apart. Long
// names keep their head and end in a hash.
func fileName(address string) string {
	var b strings.Builder
	for i := range len(address) {
		c := address[i]
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_', c == '-', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	name := b.String()
	if len(name) > 180 {
		name = name[:140] + "~" + short(Digest([]byte(address)))
	}
	return name
}

// PlanName is the name of a plan in stage records: its file or folder and the folder
// that contains it. Longer paths differ between machines, and the last element alone
// would give every main.hcl the same name.
func PlanName(file string) string {
	if abs, err := filepath.Abs(file); err == nil {
		file = abs
	}
	return filepath.ToSlash(filepath.Join(filepath.Base(filepath.Dir(file)), filepath.Base(file)))
}
