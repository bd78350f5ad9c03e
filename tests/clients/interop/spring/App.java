import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.security.core.annotation.AuthenticationPrincipal;
import org.springframework.security.oauth2.core.oidc.user.OidcUser;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.RestController;

@SpringBootApplication
@RestController
public class App {

    @GetMapping("/profile")
    String profile(@AuthenticationPrincipal OidcUser user) {
        return user.getFullName() + " " + user.getEmail();
    }

    public static void main(String[] arguments) {
        SpringApplication.run(App.class, arguments);
    }
}
