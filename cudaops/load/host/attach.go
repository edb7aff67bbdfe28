package host

import (
	"path/filepath"

	"aicplan/cudaops/worker"
)

// attach keeps a small file with the case; one that is too large for a message
// goes through the spool.
func (h *Host) attach(c worker.Case, out worker.Emitter, f file) error {
	a := worker.Attachment{Name: f.name, MediaType: f.media}
	if len(f.data) <= worker.MaxAttachmentData {
		a.Data = f.data
		out.Attach(c.Seq, a)
		return nil
	}
	s, err := worker.SpoolFile(h.init, f.name)
	if err != nil {
		return err
	}
	_, err = s.Write(f.data)
	if cerr := s.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	a.File = filepath.Base(s.Name())
	out.Attach(c.Seq, a)
	return nil
}
