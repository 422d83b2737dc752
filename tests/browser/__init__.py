"""A headless Chromium for tests of pages: how it gets here, and how it is told what to do."""
