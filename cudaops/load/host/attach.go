package host

import (
	"path/filepath"

	"aicplan/cudaops/load/aiperf"
	"aicplan/cudaops/worker"
)

// attach keeps a small file with the case; one that is too large for a message
// goes through the spool.
func (h *Host) attach(c worker.Case, out worker.Emitter, f aiperf.File) error {
	a := worker.Attachment{Name: f.Name, MediaType: f.MediaType}
	if len(f.Data) <= worker.MaxAttachmentData {
		a.Data = f.Data
		out.Attach(c.Seq, a)
		return nil
	}
	s, err := worker.SpoolFile(h.init, f.Name)
	if err != nil {
		return err
	}
	_, err = s.Write(f.Data)
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
