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

	"aicplan/sink/base/fileutil"
)

// StageRecord is the last result of a stage instance and its inputs. Fields of the stage contract are
// stored as JSON.
type StageRecord struct {
	Address string `json:"address"`
	Kind    string `json:"kind"`
	// Key is the digest of Inputs; see Key.
	Key string `json:"key"`
	// Inputs is the canonical JSON that was hashed. Explain compares two of them.
	Inputs  json.RawMessage `json:"inputs"`
	Outputs Outputs         `json:"outputs"`

	// Journal is the digest of the context whose journal provided the rows of a collect.
	Journal string `json:"journal,omitempty"`

	Status  string          `json:"status"`
	Message string          `json:"message,omitempty"`
	Info    json.RawMessage `json:"info,omitempty"`
	Counts  json.RawMessage `json:"counts,omitempty"`
	Values  json.RawMessage `json:"values,omitempty"`
	Checks  json.RawMessage `json:"checks,omitempty"`
	// Plan is the name of the plan's file or folder; see PlanName.
	Plan string `json:"plan,omitempty"`
	// Sample is true if --limit or --smoke left out cases. A record of all cases replaces a sample, but a
	// sample never replaces a record of all cases.
	Sample bool `json:"sample,omitempty"`
	// Replacing is the token of an unfinished --replace. The record is invalid while it is set; see
	// Journal.Withdraw.
	Replacing string `json:"replacing,omitempty"`
	// OutDir is the output folder of the artifacts. It is empty if there are none.
	OutDir    string          `json:"out_dir,omitempty"`
	Artifacts json.RawMessage `json:"artifacts,omitempty"`

	// Reason is why the stage ran: "stale: measure.samples 6 -> 12".
	Reason     string    `json:"reason,omitempty"`
	RunID      string    `json:"run_id,omitempty"`
	FinishedAt time.Time `json:"finished_at"`
	Seconds    float64   `json:"seconds"`
}

// Outputs contains digests of objects. A missing table has the digest "".
type Outputs struct {
	Table   string `json:"table,omitempty"`
	Ledger  string `json:"ledger,omitempty"`
	Planned string `json:"planned,omitempty"`
	// Attached lists the attachments of the table's rows.
	Attached []string `json:"attached,omitempty"`
}

// Digests lists the tables of the outputs, without attachments.
func (o Outputs) Digests() []string {
	return slices.DeleteFunc([]string{o.Table, o.Ledger, o.Planned}, func(d string) bool { return d == "" })
}

// stageFile is the file format of a stage record. Digest is computed over the bytes of Record.
type stageFile struct {
	Format int             `json:"format"`
	Digest string          `json:"digest"`
	Record json.RawMessage `json:"record"`
}

// WriteStage atomically replaces the record of r.Address. It sets FinishedAt to the current time if it
// is zero.
func (s *Store) WriteStage(r *StageRecord) error {
	if err := s.ensure(); err != nil {
		return err
	}

	rec := *r
	if rec.FinishedAt.IsZero() {
		rec.FinishedAt = s.Now().UTC()
	}
	body, err := json.Marshal(&rec)
	if err != nil {
		return fmt.Errorf("stage record %s: %w", r.Address, err)
	}

	data, _ := json.Marshal(stageFile{Format: Format, Digest: Digest(body), Record: body}) // body is valid
	return s.writeFile(s.stagePath(r.Address), append(data, '\n'))
}

// ReadStage returns the record of address. The error is ErrMissing if there is no record. An error
// of reading it, such as ErrCorrupt if it is damaged, is also reported to Options.Warn.
func (s *Store) ReadStage(address string) (*StageRecord, error) {
	path := s.stagePath(address)
	rec, err := s.readStageFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("stage record %s: %w", address, ErrMissing)
	}
	if err == nil && rec.Address != address {
		err = &CorruptError{Path: path, Detail: "it is the record of " + rec.Address}
	}

	if err != nil {
		s.Warn(err.Error() + "; it is treated as missing")
		return nil, err
	}
	return rec, nil
}

// warnMissing reports damage whose file is treated as missing. It ignores other errors.
func (s *Store) warnMissing(err error) {
	if errors.Is(err, ErrCorrupt) {
		s.Warn(err.Error() + "; it is treated as missing")
	}
}

// readJSON decodes a file of the state folder. Invalid JSON is a *CorruptError.
func readJSON(path string, to any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fileutil.Explain("read", path, err)
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
		return nil, &CorruptError{Path: path,
			Detail: fmt.Sprintf("the record has the digest %s, not %s", short(got), short(f.Digest))}
	}

	var rec StageRecord
	err := json.Unmarshal(body, &rec)
	if err == nil && rec.Inputs != nil {
		// json.Marshal escaped characters such as "<", unlike the canonical form that was hashed.
		rec.Inputs, err = Canonical(rec.Inputs)
	}
	if err == nil {
		err = s.ValidStage(&rec)
	}
	if err != nil {
		return nil, &CorruptError{Path: path, Detail: err.Error()}
	}

	return &rec, nil
}

// Stages returns all readable records, sorted by address. Damaged records are reported to Options.Warn
// and left out.
func (s *Store) Stages() ([]*StageRecord, error) {
	var out []*StageRecord
	err := s.eachStage(func(_ string, rec *StageRecord, err error) error {
		s.warnMissing(err)
		if err == nil {
			out = append(out, rec)
		} else if !errors.Is(err, ErrCorrupt) {
			return err
		}
		return nil
	})

	slices.SortFunc(out, func(a, b *StageRecord) int { return strings.Compare(a.Address, b.Address) })
	return out, err
}

// eachStage calls visit for the file of every stage record, with the record or the error of reading it. An error of
// visit ends the walk.
func (s *Store) eachStage(visit func(path string, rec *StageRecord, err error) error) error {
	entries, err := readDir(s.path("stages"))
	if err != nil {
		return err
	}

	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") || strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}

		path := s.path("stages", e.Name())
		rec, err := s.readStageFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err := visit(path, rec, err); err != nil {
			return err
		}
	}

	return nil
}

func (s *Store) stagePath(address string) string {
	return s.path("stages", fileName(address)+".json")
}

// fileName converts an address to a file name. Lower-case letters, digits, "_", "-" and "." are kept;
// every other byte becomes %XX, including upper-case letters because of case-insensitive file systems.
// Long names are truncated and end in a hash.
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

// PlanName returns the name of a plan in stage records: the last two elements of its absolute path.
// Longer paths differ between machines, and the last element alone would give every main.hcl the same
// name.
func PlanName(file string) string {
	if abs, err := filepath.Abs(file); err == nil {
		file = abs
	}
	return filepath.ToSlash(filepath.Join(filepath.Base(filepath.Dir(file)), filepath.Base(file)))
}
