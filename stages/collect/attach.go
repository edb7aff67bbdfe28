package collect

import (
	"fmt"
	"os"
	"path/filepath"

	"aicplan/cudaops/worker"
	"aicplan/engine/stage"
	"aicplan/stages/collect/rows"
)

// attach stores the files that a worker attached to a case. A file with an invalid name is logged as a warning and
// skipped, so that the case keeps its rows.
func (r *running) attach(o worker.Outcome) ([]stage.Attachment, error) {
	var out []stage.Attachment
	for _, a := range o.Attachments {
		if a.Name != filepath.Base(a.Name) || a.Name == "." || a.Name == ".." ||
			rows.UnfitText(a.Name) != "" || rows.UnfitText(a.MediaType) != "" {
			r.message("warn", fmt.Sprintf("case %s: the attachment %q is not kept: its name is no file's name, or its media "+
				"type no text of one line", o.Task.Case.ID, a.Name))
			continue
		}

		kept, err := r.store(a, o.Spool)
		if err != nil {
			return nil, fmt.Errorf("the attachment %q of case %s: %w", a.Name, o.Task.Case.ID, err)
		}

		out = append(out, kept)
	}

	return out, nil
}

// store puts one file into the object store and removes it from the worker's spool folder.
func (r *running) store(a worker.Attachment, spool string) (stage.Attachment, error) {
	out := stage.Attachment{Name: a.Name, MediaType: a.MediaType, Bytes: int64(len(a.Data))}
	var err error
	if a.File == "" {
		out.Digest, err = r.rc.Store.PutBytes(a.Data)
		return out, err
	}

	path := filepath.Join(spool, filepath.Base(a.File))
	if out.Digest, out.Bytes, err = r.rc.Store.PutFile(path); err != nil {
		return out, err
	}

	_ = os.Remove(path) // a file left here is removed with the run's folder
	return out, nil
}
