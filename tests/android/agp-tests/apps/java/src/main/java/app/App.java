package app;

import android.app.Application;
import android.content.Context;
import dev.tracetee.Section;
import dev.tracetee.Tracetee;
import dev.tracetee.TraceteeConfig;

public class App extends Application {
    @Override
    protected void attachBaseContext(Context base) {
        super.attachBaseContext(base);
        Tracetee.install(base, new TraceteeConfig.Builder().setCollectorUrl("http://127.0.0.1:8440").build());
        try (Section section = Section.begin("sum")) {
            Tracetee.setScreen("sum " + sum(base.hashCode()));
        }
    }

    private int sum(int n) { return n <= 0 ? 0 : n + sum(n / 2); }
}
