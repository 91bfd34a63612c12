from __future__ import annotations

import pytest

from mt_core.jobs.hooks import JobStatusHook
from mt_core.testing.job_hook_contract import JobHookContract
from tests.support.recording_hook import RecordingHook


class TestRecordingHook(JobHookContract):
    recording: RecordingHook

    @pytest.fixture
    def hook(self) -> JobStatusHook:
        self.recording = RecordingHook()
        return self.recording

    def effects(self) -> object:
        return set(self.recording.calls)
