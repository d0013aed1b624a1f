package handlers

import (
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxZstdWindow is the largest window a frame may ask for: RFC 9659 lets a sender of
// `Content-Encoding: zstd` use 8 MiB and no more.
const maxZstdWindow = 8 << 20

// codecs lends decompressors: building one costs more than decoding a small body.
type codecs struct{ gzips, zstds sync.Pool }

type gzipReader struct {
	pool *sync.Pool
	z    *gzip.Reader
}

// gzip reads all members of src.
func (c *codecs) gzip(src io.Reader) (*gzipReader, error) {
	if g, ok := c.gzips.Get().(*gzipReader); ok {
		if err := g.z.Reset(src); err != nil {
			g.release()
			return nil, err
		}
		return g, nil
	}
	z, err := gzip.NewReader(src)
	if err != nil {
		return nil, err
	}
	return &gzipReader{pool: &c.gzips, z: z}, nil
}

func (g *gzipReader) Read(p []byte) (int, error) {
	n, err := g.z.Read(p)
	return n, brokenUnless(err)
}

func (g *gzipReader) release() { g.pool.Put(g) }

type zstdReader struct {
	pool *sync.Pool
	z    *zstd.Decoder
}

// zstd reads all frames of src.
func (c *codecs) zstd(src io.Reader) (*zstdReader, error) {
	d, ok := c.zstds.Get().(*zstdReader)
	if !ok {
		// One goroutine: the request's own. No memory beyond the window.
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, err
		}
		d = &zstdReader{pool: &c.zstds, z: z}
	}
	if err := d.z.Reset(src); err != nil {
		d.release()
		return nil, err
	}
	return d, nil
}

func (d *zstdReader) Read(p []byte) (int, error) {
	n, err := d.z.Read(p)
	return n, brokenUnless(err)
}

func (d *zstdReader) release() {
	// Lets go of the request's body.
	_ = d.z.Reset(nil)
	d.pool.Put(d)
}
